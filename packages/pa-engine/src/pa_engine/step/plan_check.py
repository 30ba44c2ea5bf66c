"""What must hold of a plan before anything is done for it: a policy may be anybody's (E87).

Only what a plan says of requests that come or go is looked at here, so that a step in which all
rows decode pays nothing. What it says of rows that are resident is compared before publication.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from pa_spec import RequestState, StepPlan, Violation

from pa_engine.core import EngineCore
from pa_engine.report import violation
from pa_engine.residents import FREE


def check_refusals(core: EngineCore, plan: StepPlan) -> Iterator[Violation]:
    """Check that whom the plan calls unserviceable has a turn and no part in the step (E89)."""
    columns, records = core.residents.columns, core.registry.records
    refused = Counter(plan.unserviceable.tolist())
    for request, times in refused.items():
        record = records.get(request)
        if record is None:
            yield violation("plan.refusal", request=request, found="is not known")
            continue
        state = record.state if record.resident < 0 else columns.state[record.resident]
        if state not in (RequestState.ASSIGNED, RequestState.ACTIVE):
            yield violation("plan.refusal", request=request, found="has no turn")
        if times > 1:
            yield violation("plan.refusal", request=request, found="is named twice")
        if request in plan.request:
            yield violation("plan.refusal", request=request, found="has a row")


def check_admissions(core: EngineCore, plan: StepPlan) -> Sequence[Violation]:
    """Check that new rows are free ones and their requests wait, each for one of them (E48).

    Looks at new rows only: one that shares its request or row with an older one is found before
    publication, because at most one of the two owns that row.
    """
    state, records = core.residents.columns.state, core.registry.records
    new = np.flatnonzero(plan.is_new)
    requests, rows = plan.request[new].tolist(), plan.resident[new].tolist()
    request_times, row_times = Counter(requests), Counter(rows)
    found = []
    for request, row in zip(requests, rows, strict=True):
        record = records.get(request)
        if record is None or record.resident >= 0 or record.state is not RequestState.ASSIGNED:
            wrong = "the request does not wait"
        elif request_times[request] > 1:
            wrong = "the request has two rows"
        elif not 0 <= row < len(state) or state[row] != FREE:
            wrong = "the row is not free"
        elif row_times[row] > 1:
            wrong = "the row has two requests"
        else:
            continue
        found.append(violation("plan.admission", request=request, resident=row, found=wrong))
    return found
