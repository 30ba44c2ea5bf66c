"""Outcomes of a step, and the flags, reasons and codes of the events that report them."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


class EventFlags(IntFlag):
    """Which payload of an event is valid; several may be set (contract section 14)."""

    NONE = 0
    TOKEN = 1
    TURN_FINISHED = 2
    CAPACITY_BLOCKED = 4
    FAILED = 8
    RETRYABLE = 16


class FinishReason(IntEnum):
    """Why a turn ended."""

    NONE = 0
    EOS = 1
    STOP_SEQUENCE = 2
    MAX_GENERATED_TOKENS = 3
    MAX_SESSION_TOKENS = 4
    CANCELLED = 5
    FAILED = 6


class ErrorCode(IntEnum):
    """What went wrong, on events with CAPACITY_BLOCKED, FAILED or RETRYABLE.

    REQUEST_EXECUTION_FAILURE is this project's addition: the fault of one row (NaN logits), the
    engine stays usable and the other rows of the step commit.
    """

    NONE = 0
    CAPACITY_DEFERRED = 1
    EXECUTION_CAPACITY_EXCEEDED = 2
    RETRYABLE_EXECUTION = 3
    REQUEST_UNSERVICEABLE = 4
    ENGINE_CONTRACT_FAILURE = 5
    ENGINE_EXECUTION_FAILURE = 6
    REQUEST_EXECUTION_FAILURE = 7


class Outcome(Enum):
    """What one executing call of `run` came to (contract section 14)."""

    NO_WORK = "NoWork"
    COMMITTED = "Committed"
    CAPACITY_DEFERRED = "CapacityDeferred"
    EXECUTION_CAPACITY_EXCEEDED = "ExecutionCapacityExceeded"
    RETRYABLE_BATCH_ABORT = "RetryableBatchAbort"
    UNSERVICEABLE_REQUEST = "UnserviceableRequest"
    EXECUTION_CONTRACT_FAILURE = "ExecutionContractFailure"
    FATAL_EXECUTION_FAILURE = "FatalExecutionFailure"
