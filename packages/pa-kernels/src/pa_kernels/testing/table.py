"""Lengths, blocks and slots of a random problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pa_spec import UNMAPPED, BoolArray, IndexArray, Int32Array, Int64Array

from pa_kernels.testing.options import ProblemOptions

_SPARE_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of a problem live.

    boundaries: [B+1], past: [B], table: [B, M], slot_mapping: [T], all int32. position: [T] int64.
    is_filled: [N*S] slots whose content some row may read before the call writes it.
    """

    boundaries: Int32Array
    past: Int32Array
    table: Int32Array
    slot_mapping: Int32Array
    position: Int64Array
    is_filled: BoolArray
    num_blocks: int

    @property
    def num_tokens(self) -> int:
        """Packed tokens (T)."""
        return int(self.boundaries[-1])

    @property
    def max_new(self) -> int:
        """Most new tokens of a row."""
        return int(np.diff(self.boundaries).max())

    @property
    def max_context(self) -> int:
        """Most tokens that a row holds after the call, at least 1."""
        return max(1, int((self.past + np.diff(self.boundaries)).max()))


def draw_layout(rng: np.random.Generator, options: ProblemOptions) -> Layout:
    """Draw lengths (unless given), then shuffle blocks over the rows."""
    rows = options.rows or _draw_rows(rng, options.block_size)
    past = np.array([row[0] for row in rows], dtype=np.int32)
    new = np.array([row[1] for row in rows], dtype=np.int32)
    boundaries = np.concatenate(([0], np.cumsum(new))).astype(np.int32)
    table, num_blocks = _draw_table(rng, past, past + new, options.block_size)
    if options.has_padding_row or options.rows is None:
        # A padding row of a captured graph: tokens, but no blocks.
        table[int(rng.integers(len(rows)))] = UNMAPPED

    row = np.repeat(np.arange(len(rows)), new)
    position = past[row].astype(np.int64) + np.arange(len(row)) - boundaries[row]
    slot_mapping = _slots(table, row, position, options.block_size).astype(np.int32)
    is_filled = np.zeros(num_blocks * options.block_size, dtype=np.bool_)
    for index, length in enumerate(past):
        _fill(is_filled, table[index], np.arange(length), options.block_size)
    if options.has_slot_mapping and len(row):
        # Tokens whose keys another request has computed: their slots are full already.
        is_cached = rng.random(len(row)) < 0.3
        is_filled[slot_mapping[is_cached & (slot_mapping >= 0)]] = True
        slot_mapping[is_cached] = UNMAPPED
    if options.window_tokens:
        _unmap_left_blocks(options, past, table)
    if options.has_holes:
        _unmap_some(rng, past // options.block_size, table)
    return Layout(boundaries, past, table, slot_mapping, position, is_filled, num_blocks)


def _draw_rows(rng: np.random.Generator, block_size: int) -> tuple[tuple[int, int], ...]:
    past_choices = [0, 1, block_size - 1, block_size, block_size + 1, 3 * block_size]
    new_choices = [0, 1, 1, 1, 2, block_size - 1, block_size, block_size + 1, 2 * block_size + 1]
    count = int(rng.integers(2, 7))
    rows = [(int(rng.choice(past_choices)), int(rng.choice(new_choices))) for _ in range(count)]
    return ((block_size, 1), *rows, (block_size + 1, 0))


def _draw_table(
    rng: np.random.Generator, past: Int32Array, total: Int32Array, block_size: int
) -> tuple[Int32Array, int]:
    """Give every row its blocks; some rows share the complete blocks of a common prefix."""
    columns = -(-total // block_size)
    num_blocks = int(columns.sum()) + _SPARE_BLOCKS
    shuffled = rng.permutation(num_blocks).astype(np.int32)
    width = int(columns.max()) + int(rng.integers(1, 3))
    table = np.full((len(total), width), UNMAPPED, dtype=np.int32)
    taken = 0
    for row, count in enumerate(columns):
        table[row, :count] = shuffled[taken : taken + count]
        # Entries beyond a row's tokens are never read, whatever they hold.
        table[row, count:] = rng.choice([UNMAPPED, -7, num_blocks + 5])
        taken += int(count)
        donor = int(rng.integers(row + 1))
        shared = int(min(past[donor], past[row])) // block_size
        if rng.random() < 0.5:
            table[row, :shared] = table[donor, :shared]
    return table, num_blocks


def _slots(table: Int32Array, row: IndexArray, position: Int64Array, block_size: int) -> Int64Array:
    block_id = table[row, position // block_size].astype(np.int64)
    slot: Int64Array = np.where(
        block_id < 0, UNMAPPED, block_id * block_size + position % block_size
    )
    return slot


def _fill(is_filled: BoolArray, row: Int32Array, position: IndexArray, block_size: int) -> None:
    block_id = row[position // block_size].astype(np.int64)
    is_filled[(block_id * block_size + position % block_size)[block_id >= 0]] = True


def _unmap_left_blocks(options: ProblemOptions, past: Int32Array, table: Int32Array) -> None:
    """Unmap, in every second row, blocks that the window of its oldest query has left."""
    for row in range(0, len(past), 2):
        oldest = max(0, int(past[row]) - options.window_tokens + 1)
        table[row, : oldest // options.block_size] = UNMAPPED


def _unmap_some(rng: np.random.Generator, complete: Int32Array, table: Int32Array) -> None:
    """Unmap about a quarter of the complete blocks of every row."""
    for row, count in enumerate(complete):
        is_lost = rng.random(int(count)) < 0.25
        table[row, :count][is_lost] = rng.choice([UNMAPPED, -9, 2**31 - 1])
