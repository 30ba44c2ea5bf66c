"""Which blocks of a pool are free, reserved and committed, and how often each is held."""

from __future__ import annotations

from typing import final

import numpy as np
from pa_spec import BlockUsage, ContractViolation, InputUnusable, Int32Array, Int64Array, StepId

MOST_BLOCKS = 2**31 - 1
"""Block ids are int32."""


@final
class BlockPool:
    """Every block is exactly one of free, reserved and committed (E64).

    Life of a block: free → `reserve` → reserved → `commit` → committed with reference count 1 →
    `share` and `release` → count 0 → free, or quarantined (counted as reserved) until `end_step`
    has seen the last step that may write it.

    Layout of the stack `free`: [0, available) is free for anybody; [available, top) is held by
    live reservations, the oldest uppermost, each of them one slice. `top` moves only when a
    reservation is committed and when blocks come back, so discarding one moves nothing.

    reference_count: [N] int32 holders of each block. free: [N] int32 stack of ids.
    quarantine, quarantine_step: [N] the first `quarantined` entries are in use. committed: blocks
    with a reference count. generation: counts changes of committed ownership (E82).
    """

    def __init__(self, num_blocks: int) -> None:
        if not 1 <= num_blocks <= MOST_BLOCKS:
            raise InputUnusable("num_blocks", f"{num_blocks}", f"from 1 to {MOST_BLOCKS}")
        self.num_blocks = num_blocks
        self.reference_count: Int32Array = np.zeros(num_blocks, np.int32)
        self.free: Int32Array = np.arange(num_blocks, dtype=np.int32)
        self.top = num_blocks
        self.available = num_blocks
        self.committed = 0
        self.quarantine: Int32Array = np.zeros(num_blocks, np.int32)
        self.quarantine_step: Int64Array = np.zeros(num_blocks, np.int64)
        self.quarantined = 0
        self.ended_step = 0
        self.generation = 0

    def __repr__(self) -> str:
        use = self.usage
        return (
            f"BlockPool(free {use.free} + reserved {use.reserved} + committed {use.committed} "
            f"= {use.total})"
        )

    @property
    def usage(self) -> BlockUsage:
        """Blocks by state."""
        reserved = self.top - self.available + self.quarantined
        return BlockUsage(self.available, reserved, self.committed, self.num_blocks)

    def reserve(self, count: int) -> Int32Array:
        """Take blocks out of the free ones; returns their ids [count].

        Raises ContractViolation when fewer are free (E57); nothing has changed then.
        """
        if not 0 <= count <= self.available:
            raise ContractViolation(
                "E57", "blocks to reserve", f"at most {self.available} free", f"{count}"
            )
        self.available -= count
        return self.free[self.available : self.available + count].copy()

    def discard(self, count: int) -> None:
        """Make the newest `count` reserved blocks free again; no id moves."""
        self.available += count

    def commit(self, block_ids: Int32Array) -> None:
        """Turn the oldest reservation's blocks, all of them, into committed ones of one holder."""
        count = len(block_ids)
        self.reference_count[block_ids] = 1
        self.top -= count
        self.committed += count
        self.generation += 1

    def share(self, block_ids: Int32Array) -> None:
        """Add a holder to each committed block; an id given twice gets two.

        Raises ContractViolation for a block that is not committed (E64).
        """
        unique, times = np.unique(block_ids, return_counts=True)
        self._require_held(unique, np.ones_like(times))
        self.reference_count[unique] += times.astype(np.int32)
        self.generation += 1

    def release(self, block_ids: Int32Array, last_step: StepId) -> None:
        """Take a holder from each block; one without holders is free after last_step has ended.

        block_ids: [·] int32, an id given twice loses two holders. Raises ContractViolation when a
        block has fewer holders than that (E64); nothing has changed then.
        """
        unique, times = np.unique(block_ids, return_counts=True)
        self._require_held(unique, times)
        self.reference_count[unique] -= times.astype(np.int32)
        gone = unique[self.reference_count[unique] == 0]
        self.committed -= len(gone)
        self.generation += 1
        if last_step <= self.ended_step:
            self._give_back(gone)
            return
        place = slice(self.quarantined, self.quarantined + len(gone))
        self.quarantine[place] = gone
        self.quarantine_step[place] = last_step
        self.quarantined += len(gone)

    def end_step(self, step_id: StepId) -> None:
        """Free the quarantined blocks that only steps up to step_id could write."""
        if step_id <= self.ended_step:
            return
        self.ended_step = step_id
        if not self.quarantined:
            return
        ids, steps = self.quarantine[: self.quarantined], self.quarantine_step[: self.quarantined]
        waits = steps > step_id
        gone = ids[~waits]
        if not len(gone):
            return
        left = len(ids) - len(gone)
        self.quarantine[:left], self.quarantine_step[:left] = ids[waits], steps[waits]
        self.quarantined = left
        self._give_back(gone)
        self.generation += 1

    def _give_back(self, block_ids: Int32Array) -> None:
        # Reservations hold the top of the stack, so free blocks go in below them.
        count = len(block_ids)
        low, high = self.available, self.top
        if high > low:
            self.free[low + count : high + count] = self.free[low:high].copy()
        self.free[low : low + count] = block_ids
        self.available += count
        self.top += count

    def _require_held(self, unique: Int32Array, least: Int64Array) -> None:
        outside = (unique < 0) | (unique >= self.num_blocks)
        if outside.any():
            raise ContractViolation(
                "E64", "block_ids", f"ids from 0 to {self.num_blocks - 1}", f"{unique[outside][0]}"
            )
        short = self.reference_count[unique] < least
        if short.any():
            block_id = unique[short][0]
            raise ContractViolation(
                "E64",
                f"block {block_id}",
                f"at least {least[short][0]} holders",
                f"{self.reference_count[block_id]}",
            )
