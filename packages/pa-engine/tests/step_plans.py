"""Plans and works of single steps, built from plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pa_spec import SamplingBatch, StepId, StepPlan, StepWork, TableDelta


@dataclass(frozen=True)
class Row:
    """One row of a step. ids: input ids, -1 where the device has the token. rank: None = place."""

    resident: int
    past: int
    ids: tuple[int, ...]
    samples: bool = True
    request: int = 0
    rank: int | None = None


def step_plan(rows: Sequence[Row], columns: int = 8) -> StepPlan:
    """Return the plan of these rows, one after another."""
    counts = np.array([len(row.ids) for row in rows], np.int32)
    ends = np.cumsum(counts, dtype=np.int32)
    past = np.array([row.past for row in rows], np.int64)
    samples = np.array([row.samples for row in rows], np.bool_)
    ranks = [place if row.rank is None else row.rank for place, row in enumerate(rows)]
    nobody = np.zeros(0, np.int64)
    return StepPlan(
        request=np.array([row.request for row in rows], np.int64),
        resident=np.array([row.resident for row in rows], np.int32),
        rank=np.array(ranks, np.int32),
        tokens=counts,
        packed_offset=ends - counts,
        past_tokens=past,
        target_tokens=past + counts,
        is_prefill=counts > 1,
        is_new=past == 0,
        drafts=None,
        logits_rows=(ends - 1)[samples],
        logits_offsets=np.concatenate(([0], np.cumsum(samples))).astype(np.int32),
        deferred=nobody,
        unserviceable=nobody,
        total_tokens=int(counts.sum()),
        table_columns=columns,
        padded_rows=len(rows),
        capture_key=0,
    )


def step_work(
    rows: Sequence[Row],
    entries: Sequence[tuple[int, int, int]] = (),
    sampling: SamplingBatch | None = None,
    columns: int = 8,
) -> StepWork:
    """Return a step's work; entries: (resident, column, block id) that were reserved for it."""
    delta = np.array(entries, np.int32).reshape(-1, 3).T
    ids = [token for row in rows for token in row.ids]
    return StepWork(
        step_id=StepId(1),
        plan=step_plan(rows, columns),
        host_ids=np.array(ids, np.int32),
        table=TableDelta(delta[0], delta[1], delta[2]),
        sampling=sampling or SamplingBatch(),
    )
