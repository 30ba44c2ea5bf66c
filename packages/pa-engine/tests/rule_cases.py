"""Small engines before, in and after a turn, and what a refused call says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_cases import fake_engine
from pa_engine import Engine, GeneratorParams, Request
from pa_engine.testing import FakeStep
from pa_spec import ContractViolation

Given = tuple[Engine[FakeStep], Request]
Call = Callable[[Engine[FakeStep], Request], object]


def given() -> Given:
    engine = fake_engine()
    return engine, engine.create_request(GeneratorParams(max_generated_tokens=3, seed=1))


def in_turn() -> Given:
    engine, request = given()
    request.begin_turn([1, 2])
    return engine, request


def with_event() -> Given:
    engine, request = in_turn()
    request.cancel_turn(1)
    return engine, request


def message_of(make: Callable[[], Given], call: Call) -> str:
    engine, request = make()
    before = engine.snapshot()
    with pytest.raises(ContractViolation) as refused:
        call(engine, request)
    assert engine.snapshot() == before
    return str(refused.value)
