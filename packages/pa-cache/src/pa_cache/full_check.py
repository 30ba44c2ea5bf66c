"""`check_all`: every invariant of a cache, by scanning all of it.

For tests, after every rollback, and on demand; its work grows with the pool and the tables.
"""

from __future__ import annotations

import numpy as np
from pa_spec import Int32Array, Int64Array, Violation

from pa_cache.block_pool import BlockPool
from pa_cache.block_table import NOBODY, BlockTables, spread
from pa_cache.difference import first_difference, first_true
from pa_cache.report import violation
from pa_cache.state import CacheState
from pa_cache.step_check import check_counters, check_held


def check_all(cache: CacheState) -> list[Violation]:
    """Return every check of scope "all" or "both" that fails."""
    pool, tables = cache.pool, cache.tables
    found = check_counters(cache)
    for reservation in cache.live:
        found += check_held(cache, reservation)
    outside = _check_range(pool)
    # States can only be counted where the stack is one and holds block ids.
    if not outside and not any(each.check_id == "pool.bounds" for each in found):
        found += _check_states(pool)
    found += outside + _check_quarantine(pool) + _check_rows(cache) + _check_projection(cache)
    unusable = _check_width(tables) or _check_table_range(cache)
    found += unusable or _check_holders(cache) + _check_unique(tables)
    return found


def _check_range(pool: BlockPool) -> list[Violation]:
    for place, ids in (("free stack", pool.free), ("quarantine", pool.quarantine)):
        used = ids[: pool.top if ids is pool.free else pool.quarantined]
        if (at := first_true((used < 0) | (used >= pool.num_blocks))) is not None:
            last = pool.num_blocks - 1
            return [violation("pool.range", place=place, block_id=used[at], last=last)]
    return []


def _check_states(pool: BlockPool) -> list[Violation]:
    """Check that each block is exactly one of free, reserved and committed (E64)."""
    total, found = pool.num_blocks, []
    waiting = pool.quarantine[: pool.quarantined]
    times = {
        "free": np.bincount(pool.free[: pool.available], minlength=total),
        "reserved": np.bincount(pool.free[pool.available : pool.top], minlength=total)
        + np.bincount(waiting, minlength=total),
        "committed": (pool.reference_count != 0).astype(np.int64),
    }
    if (at := first_true(sum(times.values()) != np.int64(1))) is not None:
        states = " and ".join(f"{count[at]} times {name}" for name, count in times.items())
        found.append(violation("pool.single_state", block_id=at, states=states))
    counted = int(times["committed"].sum())
    if counted != pool.committed:
        found.append(violation("pool.committed_count", counted=counted, committed=pool.committed))
    return found


def _check_quarantine(pool: BlockPool) -> list[Violation]:
    steps = pool.quarantine_step[: pool.quarantined]
    at = first_true(steps <= pool.ended_step)
    if at is None:
        return []
    block_id = pool.quarantine[at]
    return [
        violation("pool.quarantine", block_id=block_id, step_id=steps[at], ended=pool.ended_step)
    ]


def _check_rows(cache: CacheState) -> list[Violation]:
    """Check each row's numbers against each other, and owners against each other."""
    tables, found = cache.tables, []
    blocks, committed = tables.num_blocks.astype(np.int64), tables.committed_tokens
    capacity = np.maximum(blocks, 0) << cache.geometry.shift
    vacant = tables.request == NOBODY
    if (at := first_true((committed < 0) | (committed > capacity))) is not None:
        found.append(
            violation("row.capacity", resident=at, committed=committed[at], blocks=blocks[at])
        )
    leftover = (blocks != 0) | (committed != 0) | (tables.promised_blocks != 0)
    if (at := first_true(vacant & leftover)) is not None:
        found.append(
            violation(
                "row.vacant",
                resident=at,
                blocks=blocks[at],
                committed=committed[at],
                promised=tables.promised_blocks[at],
            )
        )
    owners = np.sort(tables.request[~vacant])
    if (at := first_true(owners[1:] == owners[:-1])) is not None:
        found.append(violation("row.unique_request", request=owners[at]))
    return found


def _check_projection(cache: CacheState) -> list[Violation]:
    """Check that projected columns are what live reservations make of the committed ones."""
    tables = cache.tables
    columns: list[tuple[Int32Array, Int32Array]] = [
        (tables.projected_blocks, tables.num_blocks.copy()),
        (tables.projected_promised, tables.promised_blocks.copy()),
    ]
    for live in cache.live:
        claim = live.claim
        stays = claim.generation == tables.generation[claim.rows]
        columns[0][1][claim.rows[stays]] = claim.blocks_after[stays]
        if claim.promised_blocks is not None:
            columns[1][1][claim.rows[stays]] = claim.promised_blocks[stays]
    for projected, expected in columns:
        if (at := first_difference(projected, expected)) is not None:
            return [
                violation(
                    "row.projection",
                    resident=at,
                    projected=projected[at],
                    expected=expected[at],
                )
            ]
    return []


def _check_width(tables: BlockTables) -> list[Violation]:
    columns = tables.block_id.shape[1]
    at = first_true((tables.num_blocks < 0) | (tables.num_blocks > columns))
    if at is None:
        return []
    return [violation("table.width", resident=at, blocks=tables.num_blocks[at], columns=columns)]


def _places(tables: BlockTables) -> tuple[Int64Array, Int64Array, Int32Array]:
    """Return row, column and block id of every committed table entry."""
    rows = np.arange(len(tables.num_blocks))
    row, column = spread(rows, np.zeros_like(tables.num_blocks), tables.num_blocks)
    return row, column, tables.block_id[row, column]


def _check_table_range(cache: CacheState) -> list[Violation]:
    row, column, ids = _places(cache.tables)
    at = first_true((ids < 0) | (ids >= cache.pool.num_blocks))
    if at is None:
        return []
    found = {"column": column[at], "resident": row[at], "block_id": ids[at]}
    return [violation("table.range", **found, last=cache.pool.num_blocks - 1)]


def _check_holders(cache: CacheState) -> list[Violation]:
    """Check that each reference count is the number of holders that can be found."""
    _, _, ids = _places(cache.tables)
    holders = np.bincount(ids, minlength=cache.pool.num_blocks) + cache.outside_holds
    count = cache.pool.reference_count
    at = first_difference(count, holders)
    if at is None:
        return []
    return [violation("pool.reference_count", block_id=at, count=count[at], holders=holders[at])]


def _check_unique(tables: BlockTables) -> list[Violation]:
    row, _, ids = _places(tables)
    order = np.lexsort((ids, row))
    row, ids = row[order], ids[order]
    at = first_true((row[1:] == row[:-1]) & (ids[1:] == ids[:-1]))
    if at is None:
        return []
    return [violation("table.unique", block_id=ids[at], resident=row[at])]
