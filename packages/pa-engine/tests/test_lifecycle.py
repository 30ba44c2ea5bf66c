"""Requests and turns as their owner uses them."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from pa_engine import (
    Engine,
    Event,
    GeneratorParams,
    Request,
    RequestOptions,
    TurnOptions,
    Usage,
)
from pa_engine.lifecycle import LAST_TURN_ID
from pa_engine.testing import (
    FailAt,
    FailingExecutor,
    FakeExecutor,
    FakeStep,
    FaultyCall,
    expected_tokens,
)
from pa_spec import (
    ContractViolation,
    EngineConfig,
    EngineFailed,
    ErrorCode,
    EventFlags,
    FaultKind,
    FinishReason,
    InputUnusable,
    Outcome,
    RequestState,
    StepAborted,
)

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def make_engine(num_blocks: int = 16, **config: int | bool) -> Engine[FakeStep]:
    limits = {"max_batch_size": 4, "max_scheduled_tokens": 64} | config
    executor = FakeExecutor(num_blocks=num_blocks, context_length=1024)
    return Engine(executor, EngineConfig(num_blocks=num_blocks, **limits))  # type: ignore[arg-type]


def drain(engine: Engine[FakeStep], calls: int = 500) -> list[Event]:
    events: list[Event] = []
    for _ in range(calls):
        if not engine.has_pending_requests():
            return events
        events += engine.run()
    raise AssertionError(engine)


def tokens_of(events: list[Event], request: Request) -> list[int]:
    return [e.token for e in events if e.request is request and e.flags & EventFlags.TOKEN]


@pytest.mark.spec("E7", "E8", "E12", "E17")
def test_a_turn_goes_through_its_states_and_the_request_stays_resident() -> None:
    engine = make_engine()
    request = engine.create_request()
    seen = [request.state]

    turn = request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    seen.append(request.state)
    engine.run()
    seen.append(request.state)
    engine.run()
    seen.append(request.state)

    assert turn == 1
    assert [state.name for state in seen] == ["UNASSIGNED", "ASSIGNED", "ACTIVE", "TURN_COMPLETE"]
    assert engine._core.cache.usage.committed == 1
    request.close()
    assert request.state is RequestState.CLOSED
    assert engine._core.cache.usage.free == 16


@pytest.mark.spec("E13", "E14", "E15", "E25", "E29")
def test_continuation_sees_the_whole_conversation() -> None:
    engine = make_engine()
    request = engine.create_request()
    request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=5))
    first = tokens_of(drain(engine), request)
    request.begin_turn([7, 7], TurnOptions(max_generated_tokens=4))

    events = drain(engine)

    assert first == expected_tokens(PROMPT, 5)
    history = [*PROMPT, *first, 7, 7]
    assert tokens_of(events, request) == expected_tokens(history, 4)
    assert events[-1].turn_id == 2
    assert events[-1].usage == Usage(2, 4, 0)
    assert request.tokens.tolist() == history + expected_tokens(history, 4)


@pytest.mark.spec("E16")
def test_end_of_sequence_is_neither_emitted_nor_kept() -> None:
    plain = expected_tokens(PROMPT, 6)
    engine = make_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=(plain[3],)))
    request.begin_turn(PROMPT)

    events = drain(engine)

    assert tokens_of(events, request) == plain[: plain.index(plain[3])]
    assert events[-1].finish_reason is FinishReason.EOS
    assert not events[-1].flags & EventFlags.TOKEN
    assert request.tokens.tolist() == PROMPT + plain[: plain.index(plain[3])]


@pytest.mark.spec("E16", "E27")
def test_a_turn_that_ended_on_eos_continues_from_a_full_cache() -> None:
    plain = expected_tokens(PROMPT, 6)
    engine = make_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=(plain[2],)))
    request.begin_turn(PROMPT)
    drain(engine)
    request.begin_turn([8], TurnOptions(eos_token_ids=(), max_generated_tokens=3))

    events = drain(engine)

    assert tokens_of(events, request) == expected_tokens([*PROMPT, *plain[:2], 8], 3)


@pytest.mark.spec("E13")
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_prompt_at_the_session_limit_is_refused_and_below_it_gets_its_tokens(extra: int) -> None:
    engine = make_engine()
    request = engine.create_request(options=RequestOptions(max_session_tokens=20))
    prompt = [i % 97 for i in range(20 + extra)]
    if extra >= 0:
        before = engine.snapshot()
        with pytest.raises(InputUnusable, match="at most 19"):
            request.begin_turn(prompt)
        assert engine.snapshot() == before
        return

    request.begin_turn(prompt)

    events = drain(engine)
    assert tokens_of(events, request) == expected_tokens(prompt, 1)
    assert events[-1].finish_reason is FinishReason.MAX_SESSION_TOKENS


@pytest.mark.spec("E14")
def test_one_generated_token_is_exactly_one() -> None:
    engine = make_engine()
    request = engine.create_request(GeneratorParams(max_generated_tokens=1))
    request.begin_turn(PROMPT)

    (event,) = drain(engine)

    assert event.token == expected_tokens(PROMPT, 1)[0]
    assert event.flags == EventFlags.TOKEN | EventFlags.TURN_FINISHED
    assert event.finish_reason is FinishReason.MAX_GENERATED_TOKENS


@pytest.mark.spec("E18", "E19")
def test_cancel_ends_the_turn_once_and_keeps_what_is_committed() -> None:
    engine = make_engine()
    request = engine.create_request()
    turn = request.begin_turn(PROMPT)
    first = tokens_of(list(engine.run()) + list(engine.run()), request)

    assert request.cancel_turn(turn)
    assert not request.cancel_turn(turn)
    assert not request.cancel_turn(turn + 1)

    (event,) = drain(engine)
    assert (event.flags, event.finish_reason) == (EventFlags.TURN_FINISHED, FinishReason.CANCELLED)
    assert event.usage == Usage(8, 2, 0)
    request.begin_turn([1], TurnOptions(max_generated_tokens=2))
    history = [*PROMPT, *first, 1]
    assert tokens_of(drain(engine), request) == expected_tokens(history, 2)


@pytest.mark.spec("E19")
def test_cancel_merges_into_the_undelivered_token_event() -> None:
    engine = make_engine()
    others = [engine.create_request() for _ in range(2)]
    for request in others:
        request.begin_turn(PROMPT)
    (first,) = engine.run(max_events=1)
    assert first.request is others[0]

    assert others[1].cancel_turn(1)

    (event,) = engine.run()
    assert event.flags == EventFlags.TOKEN | EventFlags.TURN_FINISHED
    assert event.finish_reason is FinishReason.CANCELLED
    assert event.token == expected_tokens(PROMPT, 1)[0]


@pytest.mark.spec("E15", "E19")
def test_a_turn_cancelled_before_admission_is_prefilled_with_the_next() -> None:
    engine = make_engine()
    request = engine.create_request(GeneratorParams(max_generated_tokens=3))
    turn = request.begin_turn(PROMPT)
    assert request.cancel_turn(turn)
    with pytest.raises(ContractViolation, match="V89"):
        request.begin_turn([1])  # the terminal event has not been taken
    assert [e.finish_reason for e in engine.run()] == [FinishReason.CANCELLED]

    assert request.begin_turn([9, 9]) == 2

    assert tokens_of(drain(engine), request) == expected_tokens([*PROMPT, 9, 9], 3)


@pytest.mark.spec("V91")
def test_cancel_before_the_first_turn_and_after_close_is_an_error() -> None:
    engine, request = make_engine_and_request()
    with pytest.raises(ContractViolation, match="V91"):
        request.cancel_turn(1)
    request.close()
    with pytest.raises(ContractViolation, match="V91"):
        request.cancel_turn(1)
    del engine
    with pytest.raises(ContractViolation, match="V91"):
        request.cancel_turn(1)


@pytest.mark.spec("V89", "E10")
@pytest.mark.parametrize(
    ("tokens", "problem"),
    [
        ([], "empty"),
        ([97], "token id 97"),
        ([-1], "token id -1"),
        ([2**40], "token id"),
        ([1.5], "float64"),
        ([[1]], "rank 2"),
        ("text", "rank 0"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(tokens: list[int], problem: str) -> None:
    engine, request = make_engine_and_request()
    before = engine.snapshot()

    with pytest.raises(InputUnusable, match=problem):
        request.begin_turn(tokens)

    assert engine.snapshot() == before
    request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)


@pytest.mark.spec("E10")
def test_callers_storage_may_change_after_begin_turn() -> None:
    engine, request = make_engine_and_request()
    tokens = np.array(PROMPT, np.int32)
    request.begin_turn(tokens, TurnOptions(max_generated_tokens=2))
    tokens[:] = 0

    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)


@pytest.mark.spec("V89")
def test_a_second_turn_while_one_runs_is_refused() -> None:
    engine, request = make_engine_and_request()
    request.begin_turn(PROMPT)
    with pytest.raises(ContractViolation, match="ASSIGNED"):
        request.begin_turn(PROMPT)
    engine.run()
    with pytest.raises(ContractViolation, match="ACTIVE"):
        request.begin_turn(PROMPT)


@pytest.mark.spec("E12")
def test_turn_ids_end_before_anything_changes() -> None:
    engine, request = make_engine_and_request()
    request._record.turns = LAST_TURN_ID
    before = engine.snapshot()
    with pytest.raises(ContractViolation, match="V89"):
        request.begin_turn(PROMPT)
    assert engine.snapshot() == before


@pytest.mark.spec("E20")
@pytest.mark.parametrize("moment", ["unassigned", "waiting", "active", "complete"])
def test_close_is_legal_in_every_state_and_gives_everything_back(moment: str) -> None:
    engine, request = make_engine_and_request()
    if moment != "unassigned":
        request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    if moment == "active":
        engine.run(max_events=0)
        engine.run(max_events=1)
    if moment == "complete":
        drain(engine)

    request.close()
    request.close()

    assert request.state is RequestState.CLOSED
    assert request.turn is None
    assert not engine.has_pending_requests()
    assert engine._core.cache.usage.free == 16
    assert engine.check_all() == ()
    with pytest.raises(ContractViolation, match="CLOSED"):
        request.begin_turn(PROMPT)


@pytest.mark.spec("E20")
def test_close_drops_only_its_own_undelivered_events() -> None:
    engine = make_engine()
    one, two = (engine.create_request() for _ in range(2))
    for request in (one, two):
        request.begin_turn(PROMPT)
    engine.run(max_events=0)
    assert len(engine.run(max_events=1)) == 1

    two.close()

    assert all(event.request is one for event in engine.run())


@pytest.mark.spec("E3", "E22")
@pytest.mark.parametrize("moment", ["unassigned", "waiting", "active", "complete"])
def test_the_last_handle_may_die_on_another_thread(moment: str) -> None:
    engine, request = make_engine_and_request()
    if moment != "unassigned":
        request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    if moment == "active":
        engine.run()
    if moment == "complete":
        drain(engine)
    gone = weakref.ref(request)
    box = [request]
    del request

    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()

    assert gone() is None
    assert not engine.has_pending_requests()
    assert engine._core.cache.usage.free == 16
    assert not engine._core.registry.records
    assert not engine._core.registry.handles
    assert engine.check_all() == ()


@pytest.mark.spec("E22")
def test_a_batch_that_the_caller_keeps_does_not_keep_a_request_open() -> None:
    engine, request = make_engine_and_request()
    request.begin_turn(PROMPT)
    batch = engine.run()

    del request
    gc.collect()

    assert not engine.has_pending_requests()
    assert batch[0].request is None
    assert batch[0].token == expected_tokens(PROMPT, 1)[0]


@pytest.mark.spec("E3", "V89", "V91", "V92")
def test_every_call_from_another_thread_is_refused() -> None:
    engine, request = make_engine_and_request()
    turn = request.begin_turn(PROMPT)
    before = engine.snapshot()
    calls: list[Callable[[], object]] = [
        engine.run,
        engine.has_pending_requests,
        engine.create_request,
        engine.close,
        request.close,
        lambda: request.begin_turn([1]),
        lambda: request.cancel_turn(turn),
    ]
    errors: list[Exception] = []

    def attempt() -> None:
        for call in calls:
            try:
                call()
            except ContractViolation as error:
                errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()

    assert len(errors) == len(calls)
    assert all("owner thread" in str(error) for error in errors)
    assert engine.snapshot() == before


@pytest.mark.spec("V92")
def test_calls_from_inside_a_step_are_refused() -> None:
    found: list[str] = []

    class Meddler:
        engine: Engine[FakeStep] | None = None

        def phase(self, phase: object, step_id: int) -> None:
            assert self.engine is not None
            for call in (self.engine.run, self.engine.create_request, self.engine.close):
                with pytest.raises(ContractViolation, match="inside a step"):
                    call()
                found.append(str(phase))

    meddler = Meddler()
    engine = Engine(FakeExecutor(num_blocks=4), EngineConfig(num_blocks=4), observer=meddler)
    meddler.engine = engine
    request = engine.create_request(GeneratorParams(max_generated_tokens=2))
    request.begin_turn(PROMPT)

    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)
    assert found


@pytest.mark.spec("E23")
def test_handles_outlive_their_engine_as_tombstones() -> None:
    engine, request = make_engine_and_request()
    other = engine.create_request()
    request.begin_turn(PROMPT)
    engine.close()
    engine.close()

    assert request.state is RequestState.CLOSED
    request.close()
    with pytest.raises(ContractViolation):
        request.begin_turn(PROMPT)
    with pytest.raises(ContractViolation, match="closed"):
        engine.run()
    del engine
    gc.collect()

    assert other.state is RequestState.CLOSED
    other.close()
    with pytest.raises(ContractViolation, match="gone"):
        other.begin_turn(PROMPT)


@pytest.mark.spec("E40", "E46", "E89")
@pytest.mark.parametrize("size", [64, 65])
def test_a_prompt_that_can_never_fit_fails_alone_and_the_others_run(size: int) -> None:
    engine = make_engine(num_blocks=4)
    small = engine.create_request(GeneratorParams(max_generated_tokens=3))
    small.begin_turn(PROMPT)
    large = engine.create_request(GeneratorParams(max_generated_tokens=1))
    prompt = [i % 97 for i in range(size)]
    large.begin_turn(prompt)

    events: list[Event] = []
    while engine.has_pending_requests():
        events += engine.run()
        if small.state is RequestState.TURN_COMPLETE:
            small.close()

    assert tokens_of(events, small) == expected_tokens(PROMPT, 3)
    own = [event for event in events if event.request is large]
    if size == 64:
        assert tokens_of(own, large) == expected_tokens(prompt, 1)
        return
    (event,) = own
    assert event.flags == EventFlags.TURN_FINISHED | EventFlags.FAILED
    assert event.error_code is ErrorCode.REQUEST_UNSERVICEABLE
    assert engine.statistics().outcomes[Outcome.COMMITTED] == 3


@pytest.mark.spec("E40", "E46")
def test_growth_past_the_pool_ends_the_turn_with_one_failure() -> None:
    engine = make_engine(num_blocks=1)
    request = engine.create_request()
    request.begin_turn(PROMPT)

    events = drain(engine)

    # 16 slots hold the prompt and all but the newest of the generated tokens.
    assert tokens_of(events, request) == expected_tokens(PROMPT, 9)
    assert events[-1].error_code is ErrorCode.REQUEST_UNSERVICEABLE
    assert [bool(e.flags & EventFlags.TURN_FINISHED) for e in events] == [False] * 9 + [True]
    assert engine.statistics().outcomes[Outcome.UNSERVICEABLE_REQUEST] == 1


@pytest.mark.spec("E47", "E90")
def test_a_request_that_must_wait_is_reported_as_blocked_and_runs_later() -> None:
    engine = make_engine(num_blocks=2)
    first = engine.create_request(GeneratorParams(max_generated_tokens=2))
    first.begin_turn([i % 97 for i in range(20)])
    assert len(drain(engine)) == 2
    second = engine.create_request(GeneratorParams(max_generated_tokens=2))
    second.begin_turn(PROMPT)

    (event,) = engine.run()

    assert event.request is None
    assert event.flags == EventFlags.CAPACITY_BLOCKED
    assert event.error_code is ErrorCode.CAPACITY_DEFERRED
    assert engine.has_pending_requests()
    first.close()
    assert tokens_of(drain(engine), second) == expected_tokens(PROMPT, 2)


@pytest.mark.spec("E33", "E31", "E32", "E34", "E35")
def test_capacity_one_delivers_what_one_step_made_without_running_again() -> None:
    engine = make_engine()
    requests = [engine.create_request() for _ in range(3)]
    for request in requests:
        request.begin_turn(PROMPT)
    assert len(engine.run(max_events=0)) == 0
    assert engine.statistics().steps == 0

    batches = [engine.run(max_events=1) for _ in range(3)]

    assert engine.statistics().steps == 1
    assert [batch[0].request for batch in batches] == requests
    assert engine.run(max_events=1)[0].request is requests[0]
    assert engine.statistics().steps == 2


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


def test_an_interrupt_inside_a_step_undoes_it_and_leaves_the_engine_usable() -> None:
    class Interrupt:
        armed = True

        def phase(self, phase: object, step_id: int) -> None:
            if self.armed and step_id == 2 and str(phase).endswith("COLLECT"):
                self.armed = False
                raise KeyboardInterrupt

    engine = Engine(FakeExecutor(num_blocks=8), EngineConfig(num_blocks=8), observer=Interrupt())
    request = engine.create_request(GeneratorParams(max_generated_tokens=4))
    request.begin_turn(PROMPT)
    engine.run()
    before = engine.snapshot()

    with pytest.raises(KeyboardInterrupt):
        engine.run()

    assert engine.snapshot() == before
    drain(engine)
    assert request.tokens.tolist() == PROMPT + expected_tokens(PROMPT, 4)


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


@pytest.mark.parametrize("rows", [257, 1025])
def test_there_is_no_hidden_limit_on_rows(rows: int) -> None:
    engine = make_engine(num_blocks=rows, max_batch_size=rows, max_scheduled_tokens=4 * rows)
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=2)) for _ in range(rows)]
    for request in requests:
        request.begin_turn([request.id % 97, 3])

    events = drain(engine)

    assert len(events) == 2 * rows
    for request in requests[:: rows // 7]:
        assert tokens_of(events, request) == expected_tokens([request.id % 97, 3], 2)


@pytest.mark.slow
def test_ten_thousand_short_requests_leave_nothing_behind() -> None:
    engine = make_engine(num_blocks=64, max_batch_size=64, max_scheduled_tokens=256)

    def serve(count: int) -> None:
        requests = [
            engine.create_request(GeneratorParams(max_generated_tokens=1)) for _ in range(count)
        ]
        for request in requests:
            request.begin_turn([request.id % 97])
        while engine.has_pending_requests():
            for event in engine.run():
                assert event.request is not None
                event.request.close()

    tracemalloc.start()
    for _ in range(4):  # until dictionaries and numpy's cache of small blocks have their size
        serve(500)
    gc.collect()
    engine.has_pending_requests()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(20):
        serve(500)
    gc.collect()
    engine.has_pending_requests()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    core = engine._core
    assert engine.statistics().generated_tokens == 12_000
    assert not core.registry.records
    assert not core.registry.handles
    assert not core.registry.abandoned
    assert not len(core.waiting)
    assert not len(core.queue)
    assert core.cache.usage.free == 64
    assert after - before < 32_000, (before, after)  # 3 bytes a request


def make_engine_and_request() -> tuple[Engine[FakeStep], Request]:
    engine = make_engine()
    return engine, engine.create_request()
