"""Goal: each rule about beginning and cancelling turns is said in its words; legal calls pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pa_engine import Engine, GeneratorParams, Request, TurnOptions
from pa_engine.lifecycle import LAST_TURN_ID
from pa_engine.testing import FakeStep
from pa_spec import (
    ContractViolation,
    RequestState,
)
from rule_cases import Call, Given, given, in_turn, message_of, with_event


@pytest.mark.rule("V89")
@pytest.mark.parametrize(
    ("make", "prepare", "message"),
    [
        (
            in_turn,
            None,
            "begin_turn: expected a request without a turn in progress, got ASSIGNED",
        ),
        (
            with_event,
            None,
            "begin_turn: expected a request whose events were all taken, got one with events left",
        ),
        (
            given,
            lambda request: setattr(request._record, "turns", LAST_TURN_ID),
            "begin_turn: expected a turn id left to give, got none left",
        ),
        (
            given,
            lambda request: request.close(),
            "begin_turn: expected a request without a turn in progress, got CLOSED",
        ),
    ],
)
def test_turn_that_cannot_begin_says_why(
    make: Callable[[], Given], prepare: Callable[[Request], object] | None, message: str
) -> None:
    engine, request = make()
    if prepare is not None:
        prepare(request)
    before = engine.snapshot()

    with pytest.raises(ContractViolation) as refused:
        request.begin_turn([5])

    assert str(refused.value) == f"{message} (V89)"
    assert engine.snapshot() == before


@pytest.mark.spec("V89")
def test_turn_begins_where_the_last_one_ended_and_its_events_were_taken() -> None:
    engine, request = with_event()
    list(engine.run())
    assert request.state is RequestState.TURN_COMPLETE

    assert request.begin_turn([5]) == 2

    engine, request = given()
    request._record.turns = LAST_TURN_ID - 1
    assert request.begin_turn([5], TurnOptions()) == LAST_TURN_ID


@pytest.mark.rule("V89")
def test_options_of_another_kind_are_refused() -> None:
    wrong: Any = GeneratorParams()

    found = message_of(given, lambda _, request: request.begin_turn([1], wrong))

    assert found == "options: expected TurnOptions, got GeneratorParams (V89)"
    _engine, request = given()
    assert request.begin_turn([1], TurnOptions()) == 1


@pytest.mark.rule("V91")
def test_cancel_without_a_turn_is_refused() -> None:
    words = "cancel_turn: expected a request with a turn, got"

    assert message_of(given, lambda _, request: request.cancel_turn(1)) == (
        f"{words} one before its first turn (V91)"
    )
    _engine, request = in_turn()
    request.close()
    with pytest.raises(ContractViolation) as refused:
        request.cancel_turn(1)
    assert str(refused.value) == f"{words} a closed one (V91)"
    _engine, request = in_turn()
    assert not request.cancel_turn(2)
    assert request.cancel_turn(1)
    assert not request.cancel_turn(1)


@pytest.mark.rule("V87")
@pytest.mark.rule("V89")
@pytest.mark.rule("V91")
@pytest.mark.rule("V92")
@pytest.mark.parametrize(
    ("call", "name", "rule_id"),
    [
        (lambda engine, _: engine.create_request(), "create_request", "V87"),
        (lambda _, request: request.begin_turn([1]), "begin_turn", "V89"),
        (lambda _, request: request.cancel_turn(1), "cancel_turn", "V91"),
        (lambda engine, _: engine.run(), "run", "V92"),
        (lambda engine, _: engine.has_pending_requests(), "has_pending_requests", "V92"),
    ],
)
def test_call_of_another_thread_and_of_a_closed_engine_is_refused(
    call: Call, name: str, rule_id: str
) -> None:
    def elsewhere(engine: Engine[FakeStep], request: Request) -> object:
        raised: list[ContractViolation] = []

        def attempt() -> None:
            try:
                call(engine, request)
            except ContractViolation as error:
                raised.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        raise raised[0]

    assert message_of(given, elsewhere) == (
        f"{name}: expected a call from the engine's owner thread, got another ({rule_id})"
    )
    engine, request = given()
    engine.close()
    with pytest.raises(ContractViolation) as refused:
        call(engine, request)
    assert str(refused.value) == f"{name}: expected a live engine, got a closed one ({rule_id})"
    engine, request = given()
    request.begin_turn([1])
    request.cancel_turn(1)
    engine.run()
    call(engine, request)
