"""`check_step`: what must hold before a reservation is published, read from what it touches.

Work depends on the rows of the step and the blocks it reserves, never on committed context
(E81). Each function below returns the violations of one aspect and changes nothing but scratch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pa_spec import Int64Array, StepPlan, Violation, any_true

from pa_cache.block_table import NOBODY, spread
from pa_cache.claim import Claim, grown_places
from pa_cache.difference import first_difference, first_repeat, first_true
from pa_cache.report import violation
from pa_cache.state import CacheState

if TYPE_CHECKING:
    from pa_cache.reservation import PagedReservation


def check_step(cache: CacheState, reservation: PagedReservation) -> list[Violation]:
    """Return every check of scope "step" or "both" that fails for the reservation."""
    step_id, claim, plan = reservation.step_id, reservation.claim, reservation.plan
    if reservation not in cache.live:
        return [violation("reservation.live", step_id=step_id, state=reservation.state.value)]
    found = []
    if cache.live[0] is not reservation:
        oldest = cache.live[0].step_id
        found.append(violation("reservation.order", step_id=step_id, oldest=oldest))
    found += check_counters(cache)
    rows_found = _check_rows(cache, claim, plan)
    found += rows_found or _check_columns(cache, claim, plan)
    growth: Int64Array = claim.blocks_after - claim.blocks_before
    total = int(growth.sum())
    found += _check_reserved(cache, claim, total)
    if total == len(claim.block_ids):
        found += _check_entries(cache, claim, growth)
    found += check_held(cache, reservation)
    if not found:
        found += _check_written(cache, claim, plan)
    return found


def check_counters(cache: CacheState) -> list[Violation]:
    """Check the pool's counters against each other and against the live reservations."""
    pool, found = cache.pool, []
    held = 0
    for live in cache.live:
        held += len(live.claim.block_ids)
    if not 0 <= pool.available <= pool.top <= pool.num_blocks - pool.quarantined <= pool.num_blocks:
        found.append(
            violation(
                "pool.bounds",
                available=pool.available,
                top=pool.top,
                quarantined=pool.quarantined,
                total=pool.num_blocks,
            )
        )
    if pool.top + pool.quarantined + pool.committed != pool.num_blocks:
        use = pool.usage
        found.append(
            violation(
                "pool.conservation",
                free=use.free,
                reserved=use.reserved,
                committed=use.committed,
                total=use.total,
            )
        )
    reserved = pool.top - pool.available
    if held != reserved:
        found.append(violation("pool.reserved", held=held, reserved=reserved))
    if cache.live and pool.generation != cache.expected_generation:
        generation, expected = pool.generation, cache.expected_generation
        found.append(violation("pool.generation", generation=generation, expected=expected))
    return found


def check_held(cache: CacheState, reservation: PagedReservation) -> list[Violation]:
    """Check that the free stack still holds a live reservation's blocks in its slice."""
    high = cache.pool.top
    for older in cache.live:
        if older is reservation:
            break
        high -= len(older.claim.block_ids)
    block_ids = reservation.claim.block_ids
    low = high - len(block_ids)
    if low < 0 or high > cache.pool.num_blocks:
        return []
    held = cache.pool.free[low:high]
    at = first_difference(held, block_ids)
    if at is None:
        return []
    return [
        violation(
            "reserved.held", block_id=block_ids[at], step_id=reservation.step_id, held=held[at]
        )
    ]


def _check_rows(cache: CacheState, claim: Claim, plan: StepPlan) -> list[Violation]:
    """Check that plan and reservation name the same rows, each once (E61)."""
    planned, rows = plan.resident, claim.rows
    lengths = (len(plan.request), len(plan.past_tokens), len(plan.target_tokens), len(plan.is_new))
    if lengths.count(len(rows)) < len(lengths) or len(planned) != len(rows):
        return [
            violation("plan.rows", row=len(rows), planned=len(planned), reserved="as many rows")
        ]
    at = first_difference(planned, rows)
    if at is not None:
        return [violation("plan.rows", row=at, planned=planned[at], reserved=rows[at])]
    if (at := first_repeat(rows, cache.row_mark)) is not None:
        return [violation("plan.unique_rows", resident=rows[at])]
    return []


def _check_columns(cache: CacheState, claim: Claim, plan: StepPlan) -> list[Violation]:
    """Compare what is committed of each row with the plan and with the time of reserving."""
    tables, rows, found = cache.tables, claim.rows, []
    owner, expected = tables.request.take(rows), plan.request
    if claim.num_new:
        expected = np.where(plan.is_new, NOBODY, plan.request)
    if (at := first_difference(owner, expected)) is not None:
        found.append(
            violation("row.request", resident=rows[at], owner=owner[at], expected=expected[at])
        )
    if (at := first_difference(tables.generation.take(rows), claim.generation)) is not None:
        found.append(violation("row.generation", resident=rows[at]))
    committed, past = tables.committed_tokens.take(rows), plan.past_tokens
    if (at := first_difference(committed, past)) is not None:
        found.append(
            violation(
                "row.past_tokens", resident=rows[at], planned=past[at], committed=committed[at]
            )
        )
    owned = tables.num_blocks.take(rows)
    if (at := first_difference(owned, claim.blocks_before)) is not None:
        found.append(
            violation(
                "row.num_blocks",
                resident=rows[at],
                owned=owned[at],
                expected=claim.blocks_before[at],
            )
        )
    shift = cache.geometry.shift
    if (at := first_true(committed > owned.astype(np.int64) << shift)) is not None:
        found.append(
            violation("row.capacity", resident=rows[at], committed=committed[at], blocks=owned[at])
        )
    target, capacity = plan.target_tokens, claim.blocks_after << shift
    if (at := first_true((target <= past) | (target > capacity))) is not None:
        found.append(
            violation(
                "row.target_tokens",
                resident=rows[at],
                target=target[at],
                least=past[at] + 1,
                capacity=capacity[at],
            )
        )
    return found


def _check_reserved(cache: CacheState, claim: Claim, growth: int) -> list[Violation]:
    """Check that the reserved blocks are as many as rows grow by, distinct, in range, empty."""
    pool, ids, found = cache.pool, claim.block_ids, []
    if growth != len(ids):
        found.append(violation("reserved.count", count=len(ids), growth=growth))
    if not len(ids):
        return found
    # As unsigned numbers negative ids are too large, too.
    if (at := first_true(ids.view(np.uint32) >= pool.num_blocks)) is not None:
        return [*found, violation("reserved.range", block_id=ids[at], last=pool.num_blocks - 1)]
    if (at := first_repeat(ids, cache.block_mark)) is not None:
        found.append(violation("reserved.unique", block_id=ids[at]))
    count = pool.reference_count.take(ids)
    if (at := first_true(count != 0)) is not None:
        found.append(violation("reserved.empty", block_id=ids[at], count=count[at]))
    return found


def _check_entries(cache: CacheState, claim: Claim, growth: Int64Array) -> list[Violation]:
    """Check that each reserved block is in the table, at a place by which its row grows."""
    ids, table, found = claim.block_ids, claim.table, []
    row, column = grown_places(claim.rows, claim.blocks_before, growth, len(ids))
    misplaced = first_difference(table.resident, row)
    if misplaced is None:
        misplaced = first_difference(table.column, column)
    if misplaced is not None:
        entry = min(misplaced, len(ids) - 1)
        found.append(
            violation(
                "table.places",
                entry=entry,
                column=table.column[entry : entry + 1],
                resident=table.resident[entry : entry + 1],
            )
        )
    elif (at := first_difference(cache.tables.block_id[row, column], ids)) is not None:
        found.append(
            violation(
                "table.provisional",
                column=column[at],
                resident=row[at],
                found=cache.tables.block_id[row[at], column[at]],
                block_id=ids[at],
            )
        )
    return found


def _check_written(cache: CacheState, claim: Claim, plan: StepPlan) -> list[Violation]:
    """Check that every owned block that the step writes exists and has no other holder.

    Runs only when everything else held, so that its places lie inside the table.
    """
    tables, pool, shift = cache.tables, cache.pool, cache.geometry.shift
    row, column = claim.rows, plan.past_tokens >> shift
    # Most rows write into one block; a chunk of a prompt spans several of those it owns.
    spans = np.minimum(((plan.target_tokens - 1) >> shift) + 1, claim.blocks_before) - column
    if any_true(spans > 1):
        row, column = spread(row, column, np.maximum(spans, 0))
        owned = np.ones(len(row), np.bool_)
    else:
        owned = spans > 0
    block_id = tables.block_id[row, column]
    if (at := first_true(block_id.view(np.uint32) >= pool.num_blocks)) is not None:
        found = {"column": column[at], "resident": row[at], "block_id": block_id[at]}
        return [violation("table.range", **found, last=pool.num_blocks - 1)]
    count = pool.reference_count.take(block_id)
    # A block that the row owns has one holder, one that is reserved for it has none yet.
    if (at := first_difference(count, owned)) is not None:
        return [
            violation("row.exclusive", resident=row[at], block_id=block_id[at], count=count[at])
        ]
    return []
