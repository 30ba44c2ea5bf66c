"""The paged cache as an engine sees it."""

from __future__ import annotations

from typing import final

import numpy as np
from pa_spec import (
    Admission,
    BlockUsage,
    Candidates,
    ContractViolation,
    DecoderState,
    EngineConfig,
    Int32Array,
    Int64Array,
    StateManifest,
    StepId,
    StepLimits,
    StepPlan,
)

from pa_cache.admission import plan_admission
from pa_cache.audit import PagedCacheAudit
from pa_cache.block_pool import BlockPool
from pa_cache.block_table import NOBODY, BlockTables, CacheGeometry
from pa_cache.reservation import PagedReservation
from pa_cache.sizing import plan_geometry
from pa_cache.state import CacheState
from pa_cache.storage import allocate_state


@final
class PagedCacheManager:
    """Blocks, block tables and reservations of the residents of one engine.

    Implements `pa_spec.StepCache`. The order of one step is `plan_admission` → `reserve` → run
    the model → the reservation's `validate`, `prepare`, `publish` → `end_step`; on failure the
    reservation's `discard`. `release` gives a resident's blocks back. Not for several threads.

    geometry: sizes, see CacheGeometry. decoder_state: cache tensors, or None when somebody else
    keeps them; this class never reads them.
    """

    def __init__(
        self, geometry: CacheGeometry, decoder_state: DecoderState[object] | None = None
    ) -> None:
        self._state = CacheState(geometry)
        self._decoder_state = decoder_state

    @classmethod
    def for_manifest(
        cls,
        manifest: StateManifest,
        config: EngineConfig,
        context_length: int,
        device: str = "cpu",
    ) -> PagedCacheManager:
        """Size a cache for a decoder and allocate its tensors (see `plan_geometry`).

        Raises InputUnusable when not even one block can be had.
        """
        geometry = plan_geometry(manifest, config, context_length, device)
        state = allocate_state(manifest, geometry.num_blocks, geometry.block_size, device)
        return cls(geometry, state)

    def __repr__(self) -> str:
        use = self.usage
        residents = np.count_nonzero(self.tables.request != NOBODY)
        return (
            f"PagedCacheManager(free {use.free} + reserved {use.reserved} + committed "
            f"{use.committed} = {use.total} blocks of {self.block_size}, {residents} residents, "
            f"{len(self._state.live)} live reservations)"
        )

    @property
    def decoder_state(self) -> DecoderState[object] | None:
        """Cache tensors for the executor to bind, None when this cache has none."""
        return self._decoder_state

    @property
    def geometry(self) -> CacheGeometry:
        """Sizes of the pool and the tables."""
        return self._state.geometry

    @property
    def pool(self) -> BlockPool:
        """The pool; to be read, not changed, while a reservation is live (E82)."""
        return self._state.pool

    @property
    def tables(self) -> BlockTables:
        """The block tables, to be read."""
        return self._state.tables

    @property
    def usage(self) -> BlockUsage:
        """Blocks by state."""
        return self._state.pool.usage

    @property
    def peak(self) -> int:
        """Most blocks that were committed at once so far."""
        return self._state.peak_blocks

    @property
    def block_size(self) -> int:
        """Token slots of a block."""
        return self._state.geometry.block_size

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool."""
        return self._state.geometry.num_blocks

    @property
    def max_sequence_tokens(self) -> int:
        """Tokens that one sequence can hold at most when it has the pool to itself."""
        return self._state.geometry.max_sequence_blocks * self.block_size

    def plan_admission(self, candidates: Candidates, limits: StepLimits) -> Admission:
        """Decide, changing nothing, who can run (E43 to E48)."""
        return plan_admission(self._state, candidates, limits)

    def reserve(self, step_id: StepId, plan: StepPlan) -> PagedReservation:
        """Reserve every block that the plan needs, or none and raise ContractViolation (E57).

        Several reservations may be live; they see each other's growth and are published in the
        order in which they were made.
        """
        return PagedReservation(self._state, step_id, plan)

    def release(
        self, resident: Int32Array, last_step: StepId, keep_tokens: Int64Array | None = None
    ) -> None:
        """Give back what these residents, all different, own (E20).

        Without keep_tokens they give up everything. With it, [len(resident)], they stay resident
        with the blocks of at most that many committed tokens, and what their turn was promised
        beyond is free for others. A live reservation that has one of these rows is void. Blocks
        that lose their last holder are free once `end_step` has seen last_step (0 = at once).

        Raises ContractViolation (E20), with nothing changed, for what is no resident index or no
        count of tokens.
        """
        state, tables = self._state, self.tables
        _require_releasable(resident, keep_tokens, len(tables.num_blocks))
        rows = resident.astype(np.intp)
        owned = tables.num_blocks[rows]
        kept = np.zeros_like(owned)
        if keep_tokens is None:
            tables.request[rows] = NOBODY
            tables.committed_tokens[rows] = 0
        else:
            kept = np.minimum(owned, state.geometry.blocks_for(keep_tokens)).astype(np.int32)
            tables.committed_tokens[rows] = np.minimum(tables.committed_tokens[rows], keep_tokens)
        given_back = tables.owned_from(rows, kept)
        tables.num_blocks[rows] = tables.projected_blocks[rows] = kept
        tables.promised_blocks[rows] = tables.projected_promised[rows] = 0
        tables.generation[rows] += 1
        if len(given_back):
            state.pool.release(given_back, last_step)
            state.expected_generation += 1

    def end_step(self, step_id: StepId) -> None:
        """Say that no step up to step_id can write any more; quarantined blocks become free."""
        pool = self._state.pool
        before = pool.generation
        pool.end_step(step_id)
        self._state.expected_generation += pool.generation - before

    def share(self, block_ids: Int32Array) -> None:
        """Hold committed blocks for something that is no table, such as an index for reuse.

        They stay committed when their residents are released. A block with two holders cannot
        be written: `validate` reports a step that would.
        """
        self._state.pool.share(block_ids)
        self._state.expected_generation += 1
        np.add.at(self._state.outside_holds, block_ids, 1)

    def unshare(self, block_ids: Int32Array, last_step: StepId) -> None:
        """Give up holds that `share` took.

        Raises ContractViolation for a block that is not held so; nothing has changed then.
        """
        unique, times = np.unique(block_ids, return_counts=True)
        inside = unique[(unique >= 0) & (unique < self.num_blocks)]
        if len(inside) < len(unique) or (self._state.outside_holds[unique] < times).any():
            raise ContractViolation("E64", "block_ids", "blocks held by share", f"{block_ids}")
        self._state.outside_holds[unique] -= times.astype(np.int32)
        self._state.pool.release(block_ids, last_step)
        self._state.expected_generation += 1

    @property
    def audit(self) -> PagedCacheAudit:
        """The view for tests, rollback checks and diagnosis."""
        return PagedCacheAudit(self._state)


def _require_releasable(
    resident: Int32Array, keep_tokens: Int64Array | None, num_rows: int
) -> None:
    expected = f"integers from 0 to {num_rows - 1}, one for each row"
    if resident.ndim != 1 or resident.dtype.kind not in "iu":
        raise ContractViolation("E20", "resident", expected, f"{resident.dtype} {resident.shape}")
    if len(resident) and not 0 <= int(resident.min()) <= int(resident.max()) < num_rows:
        raise ContractViolation("E20", "resident", expected, f"{resident}")
    if keep_tokens is None:
        return
    if keep_tokens.shape != resident.shape or keep_tokens.dtype.kind not in "iu":
        found = f"{keep_tokens.dtype} {keep_tokens.shape}"
        raise ContractViolation("E20", "keep_tokens", "one integer for each resident", found)
    if len(keep_tokens) and int(keep_tokens.min()) < 0:
        raise ContractViolation("E20", "keep_tokens", "counts from 0", f"{keep_tokens}")
