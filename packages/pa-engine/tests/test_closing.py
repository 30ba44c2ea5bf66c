"""Closing, dropping and outliving; whose thread calls; what is left behind."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from lifecycle_cases import PROMPT, drain, make_engine, make_engine_and_request, tokens_of
from pa_engine import (
    Engine,
    GeneratorParams,
    TurnOptions,
)
from pa_engine.testing import (
    FakeExecutor,
    FakeStep,
    expected_tokens,
)
from pa_spec import (
    ContractViolation,
    EngineConfig,
    RequestState,
)


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
