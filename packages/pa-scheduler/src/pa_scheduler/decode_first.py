"""The decode-first policy: running sequences first, then prompts in the order they came."""

from __future__ import annotations

from typing import final

import numpy as np
from pa_spec import (
    Admission,
    Candidates,
    ContractViolation,
    InputUnusable,
    Int32Array,
    Int64Array,
    ResidentView,
    StepLimits,
    StepPlan,
    WaitingView,
    any_true,
)

from pa_scheduler.packing import (
    Layout,
    bucket_columns,
    grant_in_order,
    layout_of,
    layout_of_single_tokens,
)


@final
class DecodeFirstPolicy:
    """Serve every decode before any prefill, keep order within both, never rotate (E42).

    block_size: token slots of a block, a power of two, at least 16; max_columns: most
    block-table columns of the engine, None = no limit. Both only size `StepPlan.table_columns`.
    Holds no other state, so one instance serves any number of engines with the same cache shape.

    Raises InputUnusable for a block size or a limit outside its range.
    """

    def __init__(self, block_size: int, max_columns: int | None = None) -> None:
        if block_size < 16 or block_size & (block_size - 1):
            raise InputUnusable("block_size", f"{block_size}", "a power of two, at least 16 (V29)")
        if max_columns is not None and max_columns < 1:
            raise InputUnusable("max_columns", f"{max_columns}", "an integer from 1, or None")
        self._block_size = block_size
        self._max_columns = max_columns

    def __repr__(self) -> str:
        return f"DecodeFirstPolicy({self._block_size}, max_columns={self._max_columns})"

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        """Put decodes first, then resident prefills, then waiting requests (E41, E42)."""
        is_prefill = residents.committed_tokens < residents.prompt_tokens
        if not len(waiting.request) and not any_true(is_prefill):
            return Candidates(
                residents.resident,
                residents.request,
                residents.committed_tokens,
                residents.sequence_tokens,
                residents.limit_tokens,
                is_prefill,
                waiting.free_resident,
                residents.draft_tokens,
            )
        # A stable sort by "is in prefill" keeps the residency order of both halves.
        rows = np.argsort(is_prefill, kind="stable")
        num_waiting = len(waiting.request)
        no_drafts = np.zeros(num_waiting, np.int32)
        drafts = residents.draft_tokens
        return Candidates(
            resident=np.concatenate([residents.resident[rows], no_drafts - 1]),
            request=np.concatenate([residents.request[rows], waiting.request]),
            committed_tokens=np.concatenate(
                [residents.committed_tokens[rows], np.zeros(num_waiting, np.int64)]
            ),
            sequence_tokens=np.concatenate(
                [residents.sequence_tokens[rows], waiting.sequence_tokens]
            ),
            limit_tokens=np.concatenate([residents.limit_tokens[rows], waiting.limit_tokens]),
            is_prefill=np.concatenate([is_prefill[rows], np.ones(num_waiting, np.bool_)]),
            free_resident=waiting.free_resident,
            draft_tokens=None if drafts is None else np.concatenate([drafts[rows], no_drafts]),
        )

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        """Give each selected row one token, then spend the rest of the budget (E50, E51, E54).

        Prefills come first, in order; decodes' drafts share what they leave.

        Raises ContractViolation when admission selected more rows than the limits hold (E43).
        """
        max_rows = min(limits.max_scheduled_tokens, limits.max_batch_size)
        num_rows = len(admission.selected)
        if num_rows > max_rows:
            raise ContractViolation(
                "E43", "admission.selected", f"at most {max_rows} rows", f"{num_rows}"
            )
        chosen = _choose(candidates, admission)
        if chosen.draft_tokens is None and not any_true(chosen.is_prefill):
            layout = layout_of_single_tokens(num_rows)
        else:
            layout = self._layout_of_grants(chosen, limits)
        target_tokens = chosen.committed_tokens + layout.tokens
        return StepPlan(
            request=chosen.request,
            resident=admission.resident,
            rank=layout.rank,
            tokens=layout.tokens,
            packed_offset=layout.packed_offset,
            past_tokens=chosen.committed_tokens,
            target_tokens=target_tokens,
            is_prefill=chosen.is_prefill,
            is_new=chosen.resident < 0,
            drafts=layout.drafts,
            logits_rows=layout.logits_rows,
            logits_offsets=layout.logits_offsets,
            deferred=candidates.request[admission.deferred],
            unserviceable=candidates.request[admission.unserviceable],
            total_tokens=layout.total_tokens,
            table_columns=self._columns(target_tokens),
            padded_rows=num_rows,
            capture_key=0,
            sequence_tokens=chosen.sequence_tokens,
            limit_tokens=chosen.limit_tokens,
        )

    def _layout_of_grants(self, chosen: Candidates, limits: StepLimits) -> Layout:
        granted = _grant_prefill(chosen, limits)
        drafts = self._grant_drafts(chosen, limits.max_scheduled_tokens - int(granted.sum()))
        # E28: only a row whose whole sequence is in the cache after the step samples.
        samples = chosen.committed_tokens + granted >= chosen.sequence_tokens
        return layout_of(granted.astype(np.int32), samples, drafts)

    def _columns(self, target_tokens: Int64Array) -> int:
        widest = int(target_tokens.max()) if len(target_tokens) else 0
        return bucket_columns(widest, self._block_size, self._max_columns)

    def _grant_drafts(self, chosen: Candidates, budget: int) -> Int32Array | None:
        """Return drafts [B] that fit the budget, the turn and the promised blocks (E54).

        Admission promised blocks for each sequence only, so drafts stay inside the last of them.
        """
        if chosen.draft_tokens is None:
            return None
        room_of_blocks = -chosen.sequence_tokens % self._block_size
        room_of_turn = chosen.limit_tokens - chosen.sequence_tokens
        wanted = np.minimum(np.minimum(room_of_blocks, room_of_turn), chosen.draft_tokens)
        wanted[chosen.is_prefill] = 0
        drafts = grant_in_order(np.maximum(wanted, 0), budget).astype(np.int32)
        return drafts if drafts.any() else None


def _choose(candidates: Candidates, admission: Admission) -> Candidates:
    """Return the selected candidates' columns, without copying when that is all of them."""
    rows = admission.selected
    if len(rows) == len(candidates.request):
        return candidates
    drafts = candidates.draft_tokens
    return Candidates(
        candidates.resident[rows],
        candidates.request[rows],
        candidates.committed_tokens[rows],
        candidates.sequence_tokens[rows],
        candidates.limit_tokens[rows],
        candidates.is_prefill[rows],
        candidates.free_resident,
        None if drafts is None else drafts[rows],
    )


def _grant_prefill(chosen: Candidates, limits: StepLimits) -> Int64Array:
    """Return each row's tokens without drafts, [B]: 1, and more for prefills in order (E50)."""
    extra = np.where(chosen.is_prefill, chosen.sequence_tokens - chosen.committed_tokens - 1, 0)
    if limits.chunk_tokens > 0:
        extra = np.minimum(extra, limits.chunk_tokens - 1)
    return 1 + grant_in_order(extra, limits.max_scheduled_tokens - len(extra))
