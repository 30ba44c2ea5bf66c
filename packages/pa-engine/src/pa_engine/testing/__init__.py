"""Doubles for tests of engines, policies and caches: no model, exact answers."""

from pa_engine.testing.fake_executor import FakeExecutor, FakeStep, expected_tokens
from pa_engine.testing.faults import (
    CallRecorder,
    FailAt,
    FailingExecutor,
    FaultyCall,
    fault_error,
)

__all__ = [
    "CallRecorder",
    "FailAt",
    "FailingExecutor",
    "FakeExecutor",
    "FakeStep",
    "FaultyCall",
    "expected_tokens",
    "fault_error",
]
