"""The engine's tables: request states, phases and their failures, outcomes, and event values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType

from pa_spec.contract.data import records, table
from pa_spec.events import ErrorCode, EventFlags, Outcome
from pa_spec.lifecycle import FaultKind, Phase, RequestState

_STATES = "engine/request_states.toml"
_PHASES = "engine/step_phases.toml"


class FaultOrigin(Enum):
    """Where a failure arises: in host code, or on the device and surfacing in the phase."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A state of a request; resident: whether it has a place in the cache."""

    name: str
    value: int
    resident: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A legal change of a request's state (E8)."""

    source: RequestState
    event: str
    target: RequestState


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """A phase of a step; stage: the verb it belongs to."""

    name: Phase
    stage: str
    meaning: str


@dataclass(frozen=True, slots=True)
class FailureCell:
    """What a failure comes to. outcome None: it propagates. restored: state as before the step."""

    phase: Phase
    origin: FaultOrigin
    fault: FaultKind
    restored: bool
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What an outcome delivers, and what can be used after it (spec/engine/outcomes.toml)."""

    name: Outcome
    flags: tuple[EventFlags, ...]
    flags_mean: str
    events: str
    error_code: ErrorCode
    engine_reusable: bool
    request_usable: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class EventValue:
    """One event flag, finish reason or error code. payload: fields that a flag makes valid."""

    name: str
    value: int
    meaning: str
    payload: tuple[str, ...] = ()
    added: bool = False


@cache
def request_states() -> tuple[StateRecord, ...]:
    """Return the states of a request."""
    return records(StateRecord, table(_STATES)["state"])


@cache
def request_transitions() -> Mapping[tuple[RequestState, str], RequestState]:
    """Return the state that follows from a state and an event; what is absent is impossible."""
    rows = records(Transition, table(_STATES)["transition"])
    return MappingProxyType({(row.source, row.event): row.target for row in rows})


@cache
def step_phases() -> tuple[PhaseRecord, ...]:
    """Return the phases of a step in order; rollback comes last."""
    return records(PhaseRecord, table(_PHASES)["phase"])


@cache
def failure_table(
    origin: FaultOrigin = FaultOrigin.HOST,
) -> Mapping[tuple[Phase, FaultKind], FailureCell]:
    """Return what a failure of that origin comes to, by phase and kind.

    HOST has every phase and kind; DEVICE only the phases in which a device's error surfaces.
    """
    rows = records(FailureCell, table(_PHASES)["failure"])
    return MappingProxyType({(row.phase, row.fault): row for row in rows if row.origin is origin})


@cache
def outcomes() -> Mapping[Outcome, OutcomeRecord]:
    """Return what each outcome delivers."""
    rows = records(OutcomeRecord, table("engine/outcomes.toml")["outcome"])
    return MappingProxyType({row.name: row for row in rows})


@cache
def event_flags() -> tuple[EventValue, ...]:
    """Return the event flags."""
    return _event_values("event_flag")


@cache
def finish_reasons() -> tuple[EventValue, ...]:
    """Return the finish reasons."""
    return _event_values("finish_reason")


@cache
def error_codes() -> tuple[EventValue, ...]:
    """Return the error codes."""
    return _event_values("error_code")


def _event_values(kind: str) -> tuple[EventValue, ...]:
    return records(EventValue, table("engine/events.toml")[kind])
