"""The states of a request and of a step."""

from __future__ import annotations

from enum import Enum, IntEnum


class RequestState(IntEnum):
    """States of one request (E7); spec/engine/request_states.toml lists the transitions (E8)."""

    UNASSIGNED = 0
    ASSIGNED = 1
    ACTIVE = 2
    TURN_COMPLETE = 3
    CLOSED = 4


class Phase(Enum):
    """Places of a step at which the observer is told, in order (spec/engine/step_phases.toml)."""

    PLAN = "plan"
    RESERVE = "reserve"
    CHECKPOINT = "checkpoint"
    LAUNCH = "launch"
    COLLECT = "collect"
    PREPARE = "prepare"
    PUBLISH_SEARCH = "publish_search"
    PUBLISH_PAGED = "publish_paged"
    PUBLISH_BANKS = "publish_banks"
    PUBLISH_BOOKKEEPING = "publish_bookkeeping"
    PUBLISH_EVENTS = "publish_events"
    ROLLBACK = "rollback"


class FaultKind(Enum):
    """Kinds of failure that the failure table tells apart."""

    ABORT = "abort"
    OUT_OF_MEMORY = "out_of_memory"
    UNKNOWN = "unknown"
