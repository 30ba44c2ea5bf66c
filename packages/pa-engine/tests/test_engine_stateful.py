"""Any order of calls: the engine equals a naive model, loses no block, and never hangs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from machines import EngineMachine, PromisingEngineMachine

_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = _SETTINGS

TestPromisingEngineMachine = PromisingEngineMachine.TestCase
TestPromisingEngineMachine.settings = _SETTINGS
