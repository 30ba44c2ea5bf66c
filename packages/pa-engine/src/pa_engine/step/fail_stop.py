"""The end of an engine that cannot prove any more that its parts agree."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec import EngineFailed, ErrorCode, EventFlags, FinishReason, Outcome, RequestState

from pa_engine.core import EngineCore
from pa_engine.events import engine_event
from pa_engine.lifecycle import RequestLifecycle


def stop_engine(
    core: EngineCore,
    lifecycle: RequestLifecycle,
    outcome: Outcome,
    error: BaseException,
    ended: Sequence[int] = (),
) -> None:
    """Store the error and fail every turn that waits or runs, with one event each (E88).

    ended: requests whose turn the step had ended without anybody having been told.
    """
    if isinstance(error, EngineFailed):
        failure = error
    else:
        failure = EngineFailed(f"{outcome.value}: {type(error).__name__}: {error}")
        failure.__cause__ = error
    core.failure = failure
    contract = outcome is Outcome.EXECUTION_CONTRACT_FAILURE
    code = ErrorCode.ENGINE_CONTRACT_FAILURE if contract else ErrorCode.ENGINE_EXECUTION_FAILURE
    affected = [
        record
        for record in core.registry.records.values()
        if lifecycle.state_of(record) in (RequestState.ASSIGNED, RequestState.ACTIVE)
        or record.request_id in ended
    ]
    for record in affected:
        core.queue.append(lifecycle.end_turn(record, FinishReason.FAILED, code))
    if not affected:
        core.queue.append(engine_event(EventFlags.FAILED, code))
