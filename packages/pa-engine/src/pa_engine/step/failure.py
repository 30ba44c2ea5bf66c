"""What a failure in each phase means: the table of architecture section 4 as one function."""

from __future__ import annotations

from pa_spec import (
    ExecutionCapacityExceeded,
    FaultKind,
    InvariantViolation,
    Outcome,
    Phase,
    StepAborted,
)

_HOST_PHASES = (Phase.CHECKPOINT, Phase.COLLECT)


def kind_of(error: BaseException) -> FaultKind:
    """Tell a declared abort, a lack of memory and everything else apart."""
    if isinstance(error, (ExecutionCapacityExceeded, MemoryError)):
        return FaultKind.OUT_OF_MEMORY
    return FaultKind.ABORT if isinstance(error, StepAborted) else FaultKind.UNKNOWN


def outcome_of(phase: Phase, error: BaseException, *, on_device: bool) -> Outcome | None:
    """Return the outcome of a failure, or None where it propagates and nothing has changed.

    on_device says that the failing call was the executor's, whose unknown errors surface in
    collect but belong to launch.
    """
    kind = kind_of(error)
    if phase is Phase.PLAN:
        return Outcome.EXECUTION_CONTRACT_FAILURE if kind is FaultKind.UNKNOWN else None
    if phase is Phase.RESERVE or isinstance(error, InvariantViolation):
        return Outcome.EXECUTION_CONTRACT_FAILURE
    if phase is Phase.LAUNCH or phase in _HOST_PHASES:
        if kind is FaultKind.OUT_OF_MEMORY:
            return Outcome.EXECUTION_CAPACITY_EXCEEDED
        if kind is FaultKind.ABORT or (phase in _HOST_PHASES and not on_device):
            return Outcome.RETRYABLE_BATCH_ABORT
    return Outcome.FATAL_EXECUTION_FAILURE


def is_fatal(outcome: Outcome) -> bool:
    """Whether an engine is unusable after this outcome."""
    return outcome in (Outcome.EXECUTION_CONTRACT_FAILURE, Outcome.FATAL_EXECUTION_FAILURE)
