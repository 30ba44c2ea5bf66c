"""What one step wants of the cache, worked out before anything changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pa_spec import (
    ContractViolation,
    IndexArray,
    Int32Array,
    Int64Array,
    StepPlan,
    TableDelta,
    any_true,
)

from pa_cache.block_table import BlockTables, spread
from pa_cache.state import CacheState

_NO_ENTRY: Int32Array = np.zeros(0, np.int32)
_NO_ENTRY.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows of a step with the blocks they own before and after it.

    rows: [B] resident indices. blocks_before, blocks_after: [B]. generation: [B] of the rows.
    block_ids: [n] reserved, in the order of `table`, which holds the same ids. promised_blocks:
    [B], or None when the step promises nothing new. num_new: rows that become resident.
    """

    rows: IndexArray
    blocks_before: Int32Array
    blocks_after: Int64Array
    generation: Int64Array
    block_ids: Int32Array
    table: TableDelta
    promised_blocks: Int64Array | None
    num_new: int


def make_claim(state: CacheState, plan: StepPlan) -> Claim:
    """Take the step's blocks from the pool and write their provisional table entries.

    All or nothing: raises ContractViolation, with nothing changed, for an index outside the
    table (E61), a row wider than the table (E46) or more blocks than are free (E57).
    """
    tables, geometry = state.tables, state.geometry
    # As unsigned numbers negative indices are out of range, too.
    rows = plan.resident.astype(np.int32, copy=False).view(np.uint32).astype(np.intp)
    try:
        blocks_before = tables.projected_blocks.take(rows)
    except IndexError as error:
        raise ContractViolation(
            "E61",
            "plan.resident",
            f"indices from 0 to {geometry.max_batch_size - 1}",
            f"{plan.resident.min()} to {plan.resident.max()}",
        ) from error
    tokens = plan.target_tokens
    if plan.sequence_tokens is not None:
        tokens = np.maximum(tokens, plan.sequence_tokens)
    blocks_after: Int64Array = np.maximum(geometry.blocks_for(tokens), blocks_before)
    growth = blocks_after - blocks_before
    total = int(growth.sum())
    promised = _promises(state, plan, blocks_after)
    generation = tables.generation.take(rows)
    num_new = int(np.count_nonzero(plan.is_new))
    block_ids, table = _NO_ENTRY, TableDelta(_NO_ENTRY, _NO_ENTRY, _NO_ENTRY)
    if total:
        widest = int(blocks_after.max())
        if widest > geometry.table_columns:
            raise ContractViolation(
                "E46", "blocks of a row", f"at most {geometry.table_columns}", f"{widest}"
            )
        row, column = grown_places(rows, blocks_before, growth, total)
        row32, column32 = row.astype(np.int32), column.astype(np.int32)
        block_ids = state.pool.reserve(total)
        table = TableDelta(row32, column32, block_ids)
        tables.block_id[row, column] = block_ids
        tables.projected_blocks[rows] = blocks_after
    if promised is not None:
        tables.projected_promised[rows] = promised
    return Claim(rows, blocks_before, blocks_after, generation, block_ids, table, promised, num_new)


def grown_places(
    rows: IndexArray, first: Int32Array, growth: Int64Array, total: int
) -> tuple[IndexArray, IndexArray]:
    """Return the table places (row, column) of growth[i] blocks behind the first[i] before.

    total: the sum of growth.
    """
    grows = growth.nonzero()[0]
    row, start, count = rows[grows], first[grows], growth[grows]
    if total == len(grows):
        return row, start.astype(np.intp)
    return spread(row, start, count)


def project(tables: BlockTables, gone: Claim, live: list[Claim]) -> None:
    """Set the projected columns of a claim's rows to what the claims that stay make of them."""
    tables.projected_blocks[gone.rows] = tables.num_blocks[gone.rows]
    tables.projected_promised[gone.rows] = tables.promised_blocks[gone.rows]
    for claim in live:
        stays = claim.generation == tables.generation[claim.rows]
        rows = claim.rows[stays]
        tables.projected_blocks[rows] = claim.blocks_after[stays]
        if claim.promised_blocks is not None:
            tables.projected_promised[rows] = claim.promised_blocks[stays]


def _promises(state: CacheState, plan: StepPlan, blocks_after: Int64Array) -> Int64Array | None:
    # A turn begins with a prefill (E26), and its promise stays the same until it ends.
    if plan.limit_tokens is None or not any_true(plan.is_prefill):
        return None
    promised: Int64Array = np.maximum(state.geometry.blocks_for(plan.limit_tokens), blocks_after)
    return promised
