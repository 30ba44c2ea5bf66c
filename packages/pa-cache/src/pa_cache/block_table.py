"""Who owns which blocks: one table row and a few columns of numbers for each resident index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from pa_spec import UNMAPPED, IndexArray, InputUnusable, Int32Array, Int64Array

NOBODY = -1
"""Request id of a resident index that no request holds."""


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """Sizes of a paged cache, fixed for its life.

    num_blocks: N blocks of the pool. block_size: S token slots of a block, a power of two, at
    least 16. max_batch_size: resident indices. table_columns: M, most blocks of one sequence.

    Raises InputUnusable for a size outside its range (V29).
    """

    num_blocks: int
    block_size: int
    max_batch_size: int
    table_columns: int

    def __post_init__(self) -> None:
        size = self.block_size
        if size < 16 or size & (size - 1):
            raise InputUnusable("block_size", f"{size}", "a power of two, at least 16 (V29)")
        for name in ("num_blocks", "max_batch_size", "table_columns"):
            if getattr(self, name) < 1:
                raise InputUnusable(name, f"{getattr(self, name)}", "an integer from 1")

    @property
    def shift(self) -> int:
        """Bits by which a token count is shifted to count whole blocks."""
        return self.block_size.bit_length() - 1

    @property
    def max_sequence_blocks(self) -> int:
        """Blocks that one sequence can own at most when it has the pool to itself."""
        return min(self.num_blocks, self.table_columns)

    def blocks_for(self, tokens: Int64Array) -> Int64Array:
        """Return how many blocks hold so many tokens, elementwise."""
        blocks: Int64Array = (tokens + (self.block_size - 1)) >> self.shift
        return blocks


@final
class BlockTables:
    """Block tables and what is committed of each, by resident index; R = max_batch_size.

    block_id: [R, M] int32; row r's first num_blocks[r] entries are committed, entries behind them
    are provisional or stale and nobody reads them as owned. num_blocks: [R] int32.
    committed_tokens: [R] int64. request: [R] int64, NOBODY where nobody is resident.
    generation: [R] int64 counts releases. promised_blocks: [R] int32 blocks that the current turn
    may come to own in all, 0 without a promise. projected_blocks, projected_promised: [R] int32
    what num_blocks and promised_blocks will be when every live reservation is published.
    """

    def __init__(self, geometry: CacheGeometry) -> None:
        rows = geometry.max_batch_size
        self.block_id: Int32Array = np.full((rows, geometry.table_columns), UNMAPPED, np.int32)
        self.num_blocks: Int32Array = np.zeros(rows, np.int32)
        self.committed_tokens: Int64Array = np.zeros(rows, np.int64)
        self.request: Int64Array = np.full(rows, NOBODY, np.int64)
        self.generation: Int64Array = np.zeros(rows, np.int64)
        self.promised_blocks: Int32Array = np.zeros(rows, np.int32)
        self.projected_blocks: Int32Array = np.zeros(rows, np.int32)
        self.projected_promised: Int32Array = np.zeros(rows, np.int32)

    def owned_from(self, rows: IndexArray, first: Int32Array | None = None) -> Int32Array:
        """Return the committed block ids of these rows one after another, each from first[i] on."""
        start = np.zeros(len(rows), np.int32) if first is None else first
        row, column = spread(rows, start, self.num_blocks[rows] - start)
        return self.block_id[row, column]

    @property
    def outstanding_promises(self) -> int:
        """Blocks that are promised to residents and not owned by them yet."""
        missing = self.projected_promised - self.projected_blocks
        return int(np.maximum(missing, 0).sum())


def spread(
    rows: IndexArray, first: Int32Array | Int64Array, count: Int32Array | Int64Array
) -> tuple[IndexArray, IndexArray]:
    """Return the table places (row, column) of count[i] columns from first[i] on, row by row."""
    count = count.astype(np.intp)
    # The columns of row i begin at first[i], its entries behind those of all rows before it.
    shift = first - (np.cumsum(count) - count)
    column = np.arange(int(count.sum())) + np.repeat(shift, count)
    return np.repeat(rows, count), column
