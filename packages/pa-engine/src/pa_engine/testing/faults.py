"""Faults on demand: observers that raise at a phase, executors that raise in a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

from pa_spec import (
    BoolArray,
    DecoderConfig,
    DecoderState,
    ExecutionCapacityExceeded,
    FaultKind,
    ModelExecutor,
    Phase,
    SampledTokens,
    StateManifest,
    StepAborted,
    StepId,
    StepLimits,
    StepWork,
)

HandleT = TypeVar("HandleT")


class UnknownFault(Exception):
    """A failure that nobody declared."""


def fault_error(kind: FaultKind) -> Exception:
    """Return an error of this kind."""
    match kind:
        case FaultKind.ABORT:
            return StepAborted("a declared abort")
        case FaultKind.OUT_OF_MEMORY:
            return ExecutionCapacityExceeded("a lack of memory")
        case FaultKind.UNKNOWN:
            return UnknownFault("an unknown failure")


@dataclass(slots=True)
@final
class CallRecorder:
    """An observer that keeps every call, in order."""

    calls: list[tuple[Phase, StepId]] = field(default_factory=list)

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Note the call."""
        self.calls.append((phase, step_id))


@dataclass(slots=True)
@final
class FailAt:
    """An observer that raises at its n-th call, counted from 1.

    always: raise again whenever the phase of that call begins. fired: the phase that failed, None
    while the n-th call has not come.
    """

    number: int
    kind: FaultKind
    always: bool = False
    calls: int = 0
    fired: Phase | None = None

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Count the call, and raise when it is the one."""
        del step_id
        self.calls += 1
        if self.calls == self.number:
            self.fired = phase
            raise fault_error(self.kind)
        if self.always and phase is self.fired:
            raise fault_error(self.kind)


@dataclass(frozen=True, slots=True)
class FaultyCall:
    """The n-th call (from 1) of "launch" or "collect" that fails, with what, once or always."""

    call: str
    number: int
    error: Exception
    always: bool = False


@final
class FailingExecutor(Generic[HandleT]):
    """An executor that hands everything on to another one, except that one call fails."""

    def __init__(self, inner: ModelExecutor[HandleT], fault: FaultyCall) -> None:
        self._inner = inner
        self._fault = fault
        self._calls = {"launch": 0, "collect": 0}

    @property
    def manifest(self) -> StateManifest:
        """The inner executor's manifest."""
        return self._inner.manifest

    @property
    def config(self) -> DecoderConfig:
        """The inner executor's configuration."""
        return self._inner.config

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Bind the inner executor."""
        self._inner.bind(state, limits, columns)

    def launch(self, work: StepWork) -> HandleT:
        """Launch, then fail if this is the call: the worst moment, everything is written."""
        handle = self._inner.launch(work)
        self._maybe_fail("launch")
        return handle

    def collect(self, handle: HandleT, live: BoolArray | None) -> SampledTokens:
        """Collect, then fail if this is the call."""
        sampled = self._inner.collect(handle, live)
        self._maybe_fail("collect")
        return sampled

    def discard(self, handle: HandleT) -> None:
        """Discard at the inner executor."""
        self._inner.discard(handle)

    def _maybe_fail(self, call: str) -> None:
        if call != self._fault.call:
            return
        self._calls[call] += 1
        number = self._calls[call]
        if number == self._fault.number or (self._fault.always and number > self._fault.number):
            raise self._fault.error
