"""A cache of one's own: every sequence gets one contiguous region of blocks and keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pa_spec import (
    Admission,
    BlockUsage,
    Candidates,
    DecoderState,
    EngineFailed,
    Int32Array,
    Int64Array,
    PagedLayer,
    StateManifest,
    StepId,
    StepLimits,
    StepPlan,
    TableDelta,
    Violation,
)

NO_SLAB = -1


@dataclass(frozen=True)
class SlabSizes:
    """slabs: regions of the pool. slab_blocks: blocks of each. residents: most sequences."""

    slabs: int
    slab_blocks: int
    residents: int
    block_size: int = 16


class SlabCache:
    """As many sequences as there are slabs; whoever has one never waits for growth.

    slab: [residents] the region of each, -1 without one. committed: [residents] tokens. Blocks of
    slab s are s*slab_blocks onwards, so a block table is only told once, when a sequence comes.
    """

    def __init__(self, sizes: SlabSizes, manifest: StateManifest | None = None) -> None:
        self.sizes = sizes
        self.slab: Int64Array = np.full(sizes.residents, NO_SLAB)
        self.committed: Int64Array = np.zeros(sizes.residents, np.int64)
        self.free = list(range(sizes.slabs))
        self.reserved: list[int] = []
        self.quarantine: list[tuple[int, int]] = []
        self._state = None if manifest is None else _allocate(sizes, manifest)

    @property
    def decoder_state(self) -> DecoderState[object] | None:
        """Tensors of every layer, None without a manifest."""
        return self._state

    @property
    def block_size(self) -> int:
        """Token slots of a block."""
        return self.sizes.block_size

    @property
    def max_sequence_tokens(self) -> int:
        """What a slab holds."""
        return self.sizes.slab_blocks * self.sizes.block_size

    @property
    def usage(self) -> BlockUsage:
        """Whole slabs, counted in blocks; a quarantined one is not free yet."""
        each, slabs = self.sizes.slab_blocks, self.sizes.slabs
        free, reserved = len(self.free), len(self.reserved)
        return BlockUsage(
            each * free, each * reserved, each * (slabs - free - reserved), each * slabs
        )

    def plan_admission(self, candidates: Candidates, limits: StepLimits) -> Admission:
        """Select residents, and new sequences while slabs and rows are left."""
        slabs, rows = len(self.free), min(limits.max_batch_size, limits.max_scheduled_tokens)
        places = candidates.free_resident.tolist()[:slabs]
        selected: list[int] = []
        resident: list[int] = []
        never: list[int] = []
        for index, row in enumerate(candidates.resident.tolist()):
            if candidates.sequence_tokens[index] > self.max_sequence_tokens:
                never.append(index)
            elif len(selected) < rows and (row >= 0 or places):
                selected.append(index)
                resident.append(row if row >= 0 else places.pop(0))
        left = np.setdiff1d(np.arange(len(candidates.resident)), [*selected, *never])
        chosen, refused = np.array(selected, np.intp), np.array(never, np.intp)
        return Admission(chosen, np.array(resident, np.int32), left, refused)

    def reserve(self, step_id: StepId, plan: StepPlan) -> SlabReservation:
        """Take a slab for each new row."""
        needed = int(plan.is_new.sum())
        if needed > len(self.free):
            raise EngineFailed(f"{needed} slabs planned, {len(self.free)} free")
        return SlabReservation(self, plan)

    def release(
        self, resident: Int32Array, last_step: StepId, keep_tokens: Int64Array | None = None
    ) -> None:
        """Give slabs back; with keep_tokens the sequence keeps its own."""
        if keep_tokens is not None:
            self.committed[resident] = np.minimum(self.committed[resident], keep_tokens)
            return
        slabs = [slab for slab in self.slab[resident].tolist() if slab != NO_SLAB]
        if last_step:
            self.quarantine += [(int(last_step), slab) for slab in slabs]
        else:
            self.free += slabs
        self.slab[resident] = NO_SLAB
        self.committed[resident] = 0

    def end_step(self, step_id: StepId) -> None:
        """Free what only waited for this step."""
        self.free += [slab for step, slab in self.quarantine if step <= step_id]
        self.quarantine = [each for each in self.quarantine if each[0] > step_id]

    @property
    def audit(self) -> SlabAudit:
        """Look inside."""
        return SlabAudit(self)


class SlabReservation:
    """Slabs taken for one step's new rows."""

    def __init__(self, cache: SlabCache, plan: StepPlan) -> None:
        self._cache, self._plan = cache, plan
        self._rows = plan.resident[plan.is_new]
        self._slabs = [cache.free.pop(0) for _ in self._rows]
        cache.reserved += self._slabs

    @property
    def table(self) -> TableDelta:
        """Every entry of the step's rows, as wide as the step's table."""
        cache, plan = self._cache, self._plan
        slab = cache.slab.copy()
        slab[self._rows] = self._slabs
        columns = np.arange(plan.table_columns)
        columns = columns[columns < cache.sizes.slab_blocks]
        rows = np.repeat(plan.resident, len(columns))
        column = np.tile(columns, plan.num_rows)
        block = slab[rows] * cache.sizes.slab_blocks + column
        return TableDelta(rows, column.astype(np.int32), block.astype(np.int32))

    def validate(self) -> Sequence[Violation]:
        """Compare what the plan begins and ends with to what is committed."""
        plan, cache = self._plan, self._cache
        found = []
        if (cache.committed[plan.resident] != plan.past_tokens).any():
            found.append(Violation("slab.boundary", f"{cache.committed[plan.resident]}"))
        if (plan.target_tokens > cache.max_sequence_tokens).any():
            found.append(Violation("slab.capacity", f"{plan.target_tokens}"))
        return found

    def prepare(self) -> None:
        """Do nothing: there is no fallible work."""

    def publish(self) -> None:
        """Make the slabs the rows' own."""
        cache = self._cache
        cache.slab[self._rows] = self._slabs
        cache.committed[self._plan.resident] = self._plan.target_tokens
        self._leave()

    def discard(self) -> None:
        """Put the slabs back where they came from."""
        self._cache.free[:0] = self._slabs
        self._leave()

    def _leave(self) -> None:
        for slab in self._slabs:
            self._cache.reserved.remove(slab)
        self._slabs = []


class SlabAudit:
    """Looks into a SlabCache."""

    def __init__(self, cache: SlabCache) -> None:
        self._cache = cache

    def snapshot(self) -> object:
        """Return who has which slab and how much is in it."""
        cache = self._cache
        return (cache.slab.tolist(), cache.committed.tolist(), sorted(cache.free))

    def check_all(self) -> Sequence[Violation]:
        """Find slabs that are in two places or in none."""
        cache = self._cache
        owned = [slab for slab in cache.slab.tolist() if slab != NO_SLAB]
        waiting = [slab for _, slab in cache.quarantine]
        every = sorted([*owned, *cache.free, *cache.reserved, *waiting])
        if every != list(range(cache.sizes.slabs)):
            return (Violation("slab.conservation", f"{every}"),)
        return ()

    def committed(self, resident: Int32Array) -> Int64Array:
        """Return committed tokens."""
        return self._cache.committed[resident]


def _allocate(sizes: SlabSizes, manifest: StateManifest) -> DecoderState[object]:
    """Allocate key and value tensors, full of NaN so that nothing unwritten goes unnoticed."""
    layers: dict[int, PagedLayer[object]] = {}
    blocks = sizes.slabs * sizes.slab_blocks
    for group in manifest.groups:
        shape = (blocks, sizes.block_size, *group.row_shape)
        dtype: torch.dtype = getattr(torch, group.element_type.value)
        for layer in group.layer_ids:
            key, value = (torch.full(shape, torch.nan, dtype=dtype) for _ in range(2))
            layers[layer] = PagedLayer(key, value)
    return DecoderState(layers, sizes.block_size, blocks)
