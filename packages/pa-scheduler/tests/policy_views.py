"""Views, admissions and plans of the array code, from and to the rows of the naive model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from naive_policy import Limits, Packed, Row
from pa_spec import (
    Admission,
    Candidates,
    Int64Array,
    ResidentView,
    StepLimits,
    StepPlan,
    WaitingView,
)


def int64(values: Sequence[int]) -> Int64Array:
    return np.array(values, np.int64)


def resident_view(rows: Sequence[Row]) -> ResidentView:
    drafts = np.array([row.drafts for row in rows], np.int32)
    return ResidentView(
        resident=np.array([row.resident for row in rows], np.int32),
        request=int64([row.request for row in rows]),
        committed_tokens=int64([row.committed for row in rows]),
        sequence_tokens=int64([row.sequence for row in rows]),
        prompt_tokens=int64([row.prompt for row in rows]),
        limit_tokens=int64([row.limit for row in rows]),
        draft_tokens=drafts if drafts.any() else None,
    )


def waiting_view(rows: Sequence[Row], free: Sequence[int] = range(100, 200)) -> WaitingView:
    return WaitingView(
        request=int64([row.request for row in rows]),
        sequence_tokens=int64([row.sequence for row in rows]),
        limit_tokens=int64([row.limit for row in rows]),
        free_resident=np.array(free, np.int32),
    )


def admit(
    candidates: Candidates, selected: Sequence[int], unserviceable: Sequence[int] = ()
) -> Admission:
    """Select these candidates; new ones take the free indices in order; others are deferred."""
    resident = candidates.resident[list(selected)].copy()
    is_new = resident < 0
    resident[is_new] = candidates.free_resident[: int(is_new.sum())]
    named = {*selected, *unserviceable}
    deferred = [each for each in range(len(candidates.request)) if each not in named]
    return Admission(
        selected=np.array(selected, np.intp),
        resident=resident,
        deferred=np.array(deferred, np.intp),
        unserviceable=np.array(unserviceable, np.intp),
    )


def step_limits(limits: Limits, max_batch_size: int = 64) -> StepLimits:
    return StepLimits(max_batch_size, max(limits.budget, 1), limits.chunk)


def as_packed(plan: StepPlan) -> Packed:
    drafts = [0] * plan.num_rows if plan.drafts is None else plan.drafts.tolist()
    bounds = plan.logits_offsets.tolist()
    return Packed(
        requests=plan.request.tolist(),
        tokens=plan.tokens.tolist(),
        offsets=plan.packed_offset.tolist(),
        targets=plan.target_tokens.tolist(),
        drafts=drafts,
        logits=[plan.logits_rows[start:end].tolist() for start, end in pairwise(bounds)],
    )
