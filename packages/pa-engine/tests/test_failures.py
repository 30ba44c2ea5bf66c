"""What callers see of failures: abort and retry, a failed engine, a faulty row."""

from __future__ import annotations

import traceback
import weakref

import pytest
import torch
from lifecycle_cases import PROMPT, drain, tokens_of
from pa_engine import (
    Engine,
    GeneratorParams,
    TorchExecutor,
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
    Phase,
    StepAborted,
    StepInputs,
)
from tiny_decoder import TinyDecoder


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


def test_an_undone_step_keeps_nothing_of_its_memory() -> None:
    class Decoder(TinyDecoder):
        held: weakref.ref[torch.Tensor] | None = None

        def forward(self, inputs: StepInputs[torch.Tensor]) -> torch.Tensor:
            if self.held is None:
                activation = torch.zeros(1000)
                self.held = weakref.ref(activation)
                raise torch.OutOfMemoryError("the device is full")
            return super().forward(inputs)

    decoder = Decoder()
    engine = Engine(TorchExecutor(decoder), EngineConfig(num_blocks=8))
    request = engine.create_request(GeneratorParams(max_generated_tokens=2))
    request.begin_turn([1, 2])

    (event,) = engine.run()

    assert event.error_code is ErrorCode.EXECUTION_CAPACITY_EXCEEDED
    assert "the device is full" in str(engine.last_abort)
    assert decoder.held is not None
    assert decoder.held() is None
    assert len(drain(engine)) == 2


def test_a_failed_engine_that_is_polled_does_not_grow() -> None:
    fault = FaultyCall("launch", 1, ValueError("broken"))
    engine = Engine(FailingExecutor(FakeExecutor(num_blocks=8), fault), EngineConfig(num_blocks=8))
    request = engine.create_request()
    request.begin_turn(PROMPT)
    engine.run()

    depths = []
    for _ in range(3):
        with pytest.raises(EngineFailed) as raised:
            engine.run()
        depths.append(len(traceback.extract_tb(raised.value.__traceback__)))

    assert len(set(depths)) == 1


def test_a_plan_that_raises_leaves_no_old_events_in_the_buffer() -> None:
    observer = FailAt(12, FaultKind.OUT_OF_MEMORY)  # the second step's plan
    engine = Engine(FakeExecutor(num_blocks=8), EngineConfig(num_blocks=8), observer=observer)
    request = engine.create_request(GeneratorParams(max_generated_tokens=3))
    request.begin_turn(PROMPT)
    buffer = engine.create_event_buffer(4)
    assert len(engine.run(buffer)) == 1

    with pytest.raises(StepAborted):
        engine.run(buffer)

    assert observer.fired is Phase.PLAN
    assert len(buffer) == 0
