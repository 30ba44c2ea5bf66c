"""What a failure in each phase means, read from the contract's failure table."""

from __future__ import annotations

from pa_spec import (
    ExecutionCapacityExceeded,
    FaultKind,
    FaultOrigin,
    InvariantViolation,
    Outcome,
    Phase,
    StepAborted,
    failure_table,
)


def kind_of(error: BaseException) -> FaultKind:
    """Tell a declared abort, a lack of memory and everything else apart."""
    if isinstance(error, (ExecutionCapacityExceeded, MemoryError)):
        return FaultKind.OUT_OF_MEMORY
    return FaultKind.ABORT if isinstance(error, StepAborted) else FaultKind.UNKNOWN


def outcome_of(phase: Phase, error: BaseException, *, on_device: bool) -> Outcome | None:
    """Return the outcome of a failure, or None where it propagates and nothing has changed.

    on_device says that the failing call was the executor's: its unknown errors surface in
    collect but are the device's. A broken invariant is a contract failure in every phase.
    """
    if isinstance(error, InvariantViolation):
        return Outcome.EXECUTION_CONTRACT_FAILURE
    origin = FaultOrigin.DEVICE if on_device else FaultOrigin.HOST
    return failure_table(origin)[phase, kind_of(error)].outcome


def is_fatal(outcome: Outcome) -> bool:
    """Whether an engine is unusable after this outcome."""
    return outcome in (Outcome.EXECUTION_CONTRACT_FAILURE, Outcome.FATAL_EXECUTION_FAILURE)


def without_frames(error: BaseException) -> BaseException:
    """Cut the tracebacks of an error and its causes, whose frames hold the step's tensors.

    A retry after a lack of memory must find the memory of the first attempt free.
    """
    chain: BaseException | None = error
    while chain is not None and chain.__traceback__ is not None:
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__
    return error
