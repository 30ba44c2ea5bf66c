"""The five sub-steps of publication: assignments of staged values, none of which can fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pa_spec import FinishReason, Phase, RequestState, StepReservation, any_true

from pa_engine.core import EngineCore
from pa_engine.step.in_flight import HandleT, InFlightStep
from pa_engine.step.results import StepResults


def publish(
    core: EngineCore,
    step: InFlightStep[HandleT],
    results: StepResults,
    reservation: StepReservation,
    enter: Callable[[Phase], None],
) -> None:
    """Make a staged step committed state, in the order of E77.

    enter tells the observer; what it raises is fatal like everything here (E78).
    """
    enter(Phase.PUBLISH_SEARCH)
    _publish_search(core, results)
    enter(Phase.PUBLISH_PAGED)
    reservation.publish()
    # No fixed state yet: the banks flip here, between occupancy and bookkeeping (E77).
    enter(Phase.PUBLISH_BANKS)
    enter(Phase.PUBLISH_BOOKKEEPING)
    _publish_bookkeeping(core, step, results)
    enter(Phase.PUBLISH_EVENTS)
    core.queue.append(results.events)


def _publish_search(core: EngineCore, results: StepResults) -> None:
    """Append sampled tokens to the mirror and advance the random streams (E29)."""
    residents, rows = core.residents, results.resident
    columns = residents.columns
    if results.num_appended == len(rows):
        residents.tokens[rows, results.position] = results.token
    else:
        kept = results.appended
        residents.tokens[rows[kept], results.position[kept]] = results.token[kept]
    columns.sequence_tokens[rows] = results.sequence_tokens
    columns.draws[rows] = results.draws


def _publish_bookkeeping(
    core: EngineCore, step: InFlightStep[HandleT], results: StepResults
) -> None:
    """Advance counters and states; objects are touched only for who came or finished (E80)."""
    assert step.checkpoint is not None
    residents, plan, rows = core.residents, step.plan, step.checkpoint.rows
    columns = residents.columns
    columns.committed_tokens[rows] = plan.target_tokens
    columns.turn_generated[results.resident] = results.turn_generated
    columns.state[rows] = int(RequestState.ACTIVE)
    residents.token_on_device[results.resident] = results.appended
    if any_true(plan.is_new):
        new = np.flatnonzero(plan.is_new)
        residents.admit(plan.resident[new])
        core.waiting.remove(plan.request[new])
        for row, request_id in zip(rows[new].tolist(), plan.request[new].tolist(), strict=True):
            core.registry.records[request_id].admit(row)
    if results.reason is not None:
        _finish(core, results)


def _finish(core: EngineCore, results: StepResults) -> None:
    assert results.reason is not None
    columns = core.residents.columns
    finished = results.resident[results.finished]
    columns.state[finished] = int(RequestState.TURN_COMPLETE)
    core.residents.changed()
    # What was reserved beyond the committed tokens is free for others (the request stays, E17).
    core.cache.release(
        finished.astype(np.int32), core.step_in_flight, columns.committed_tokens[finished]
    )
    reasons = results.reason[results.finished].tolist()
    for request_id, reason in zip(columns.request[finished].tolist(), reasons, strict=True):
        core.registry.records[request_id].finish_reason = FinishReason(reason)
