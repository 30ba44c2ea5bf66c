"""What callers see of failures: abort and retry, a failed engine, a faulty row."""

from __future__ import annotations

import pytest
from lifecycle_cases import PROMPT, drain, tokens_of
from pa_engine import (
    Engine,
    GeneratorParams,
)
from pa_engine.testing import (
    FailAt,
    FailingExecutor,
    FakeExecutor,
    FaultyCall,
    expected_tokens,
)
from pa_spec import (
    EngineConfig,
    EngineFailed,
    ErrorCode,
    EventFlags,
    FaultKind,
    Outcome,
    StepAborted,
)


@pytest.mark.spec("E37", "E88")
def test_a_failed_engine_reports_each_turn_and_then_raises_the_stored_error() -> None:
    cause = ValueError("the device is on fire")
    executor = FailingExecutor(FakeExecutor(num_blocks=8), FaultyCall("launch", 2, cause))
    engine = Engine(executor, EngineConfig(num_blocks=8))
    one, two = (engine.create_request() for _ in range(2))
    one.begin_turn(PROMPT)
    assert len(engine.run()) == 1
    two.begin_turn(PROMPT)

    events = list(engine.run())

    assert [event.request for event in events] == [one, two]
    assert {event.error_code for event in events} == {ErrorCode.ENGINE_EXECUTION_FAILURE}
    assert not engine.has_pending_requests()
    with pytest.raises(EngineFailed, match="on fire") as raised:
        engine.run()
    assert raised.value.__cause__ is cause
    with pytest.raises(EngineFailed):
        engine.run(max_events=0)
    with pytest.raises(EngineFailed):
        engine.create_request()
    one.close()
    engine.close()


@pytest.mark.spec("E83", "E84")
def test_retry_after_an_abort_yields_the_same_tokens() -> None:
    fault = FaultyCall("collect", 3, StepAborted("try again"))
    engine = Engine(FailingExecutor(FakeExecutor(num_blocks=8), fault), EngineConfig(num_blocks=8))
    request = engine.create_request(GeneratorParams(max_generated_tokens=6))
    request.begin_turn(PROMPT)

    events = drain(engine)

    assert tokens_of(events, request) == expected_tokens(PROMPT, 6)
    assert [e.error_code for e in events if e.request is None] == [ErrorCode.RETRYABLE_EXECUTION]
    assert engine.statistics().outcomes[Outcome.RETRYABLE_BATCH_ABORT] == 1
    assert engine.last_abort is fault.error


def test_a_faulty_row_fails_its_own_turn_and_the_others_commit() -> None:
    bad = expected_tokens(PROMPT, 3)[2]
    other = [2, 7, 1, 8]
    assert bad not in expected_tokens(other, 5)
    executor = FakeExecutor(num_blocks=8, faulty_tokens=(bad,))
    engine = Engine(executor, EngineConfig(num_blocks=8))
    params = GeneratorParams(max_generated_tokens=5)
    one, two = (engine.create_request(params) for _ in range(2))
    one.begin_turn(PROMPT)
    two.begin_turn(other)

    events = drain(engine)

    assert tokens_of(events, two) == expected_tokens(other, 5)
    failed = [event for event in events if event.request is one]
    assert tokens_of(failed, one) == expected_tokens(PROMPT, 2)
    assert failed[-1].flags == EventFlags.TURN_FINISHED | EventFlags.FAILED
    assert failed[-1].error_code is ErrorCode.REQUEST_EXECUTION_FAILURE
    assert engine.check_all() == ()


@pytest.mark.spec("E55")
def test_a_failed_plan_propagates_and_the_next_call_goes_on() -> None:
    observer = FailAt(1, FaultKind.OUT_OF_MEMORY)
    engine = Engine(FakeExecutor(num_blocks=8), EngineConfig(num_blocks=8), observer=observer)
    request = engine.create_request(GeneratorParams(max_generated_tokens=2))
    request.begin_turn(PROMPT)
    before = engine.snapshot()

    with pytest.raises(StepAborted):
        engine.run()

    assert engine.snapshot() == before
    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)
