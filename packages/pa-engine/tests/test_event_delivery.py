"""How `run` delivers events: capacities, buffers, what a failed engine still says."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from engine_cases import CONFIG, fake_engine, run_to_end
from pa_engine import Event, GeneratorParams, Request
from pa_engine.testing import FailAt, expected_tokens
from pa_spec import ContractViolation, EngineFailed, EventFlags, FaultKind, FinishReason


@pytest.mark.spec("E32")
def test_a_call_delivers_what_fits_and_retains_the_rest_in_order() -> None:
    engine = fake_engine()
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=2)) for _ in range(3)]
    for request in requests:
        request.begin_turn([1, 2, 3])

    sizes, order = [], []
    while engine.has_pending_requests():
        batch = engine.run(max_events=2)
        sizes.append(len(batch))
        order += batch.requests.tolist()

    assert sizes == [2, 1, 2, 1]
    assert order == [0, 1, 2, 0, 1, 2]
    assert engine.statistics().steps == 2


@pytest.mark.spec("E34")
def test_delivering_retained_events_changes_neither_model_nor_cache() -> None:
    engine = fake_engine()
    requests = [engine.create_request() for _ in range(3)]
    for request in requests:
        request.begin_turn([1, 2, 3])
    engine.run(max_events=1)
    before = engine.snapshot()

    engine.run(max_events=1)

    after = engine.snapshot()
    assert len(after.events) == len(before.events) - 1 == 1
    assert (after.rows, after.cache, after.waiting) == (before.rows, before.cache, before.waiting)


@pytest.mark.spec("E31")
def test_capacity_zero_validates_and_does_nothing_else() -> None:
    engine = fake_engine()
    buffer = engine.create_event_buffer(0)
    request = engine.create_request()
    request.begin_turn([1, 2])
    before = engine.snapshot()

    assert len(engine.run(max_events=0)) == 0
    assert len(engine.run(buffer)) == 0

    assert engine.snapshot() == before
    assert sum(engine.statistics().outcomes.values()) == 0


@pytest.mark.spec("E31", "E37")
def test_a_failed_engine_delivers_its_last_events_then_raises_its_error_every_time() -> None:
    observer = FailAt(4, FaultKind.UNKNOWN)
    engine = fake_engine(observer=observer)
    requests = [engine.create_request() for _ in range(2)]
    for request in requests:
        request.begin_turn([1, 2])

    assert len(engine.run(max_events=1)) == 1
    with pytest.raises(EngineFailed) as at_capacity_zero:
        engine.run(max_events=0)
    assert engine.has_pending_requests()
    assert len(engine.run()) == 1
    assert not engine.has_pending_requests()
    with pytest.raises(EngineFailed) as afterwards:
        engine.run()

    assert afterwards.value is at_capacity_zero.value


@pytest.mark.spec("E33")
def test_a_buffer_is_filled_again_by_every_call_and_never_beyond_its_capacity() -> None:
    engine = fake_engine()
    buffer = engine.create_event_buffer(2)
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=2)) for _ in range(3)]
    for request in requests:
        request.begin_turn([4, 5])

    assert engine.run(buffer) is buffer
    first, taken = buffer.requests.tolist(), buffer[0]
    engine.run(buffer)

    assert first == [0, 1]
    assert buffer.requests.tolist() == [2]
    assert taken.request is requests[0]
    assert taken.token == expected_tokens([4, 5], 1)[0]


@pytest.mark.spec("E33", "V92")
def test_a_buffer_of_another_engine_is_refused_and_nothing_runs() -> None:
    engine, other = fake_engine(), fake_engine()
    buffer = other.create_event_buffer(4)
    request = engine.create_request()
    request.begin_turn([1])
    before = engine.snapshot()

    with pytest.raises(ContractViolation, match="another's") as refused:
        engine.run(buffer)

    assert refused.value.rule_id == "V92"
    assert engine.snapshot() == before


@pytest.mark.spec("E33")
def test_a_buffer_does_not_keep_its_engine_alive() -> None:
    engine = fake_engine()
    buffer = engine.create_event_buffer(4)
    dies = weakref.ref(engine)

    del engine
    gc.collect()

    assert dies() is None
    assert buffer.capacity == 4


@pytest.mark.parametrize("capacity", [-1, 1.0, True, "8", None, 2**31])
@pytest.mark.spec("V92")
def test_a_capacity_outside_its_range_is_refused(capacity: Any) -> None:
    engine = fake_engine(CONFIG)

    with pytest.raises(ContractViolation, match="capacity: expected"):
        engine.create_event_buffer(capacity)
    if capacity is not None:
        with pytest.raises(ContractViolation, match="capacity: expected"):
            engine.run(max_events=capacity)


@pytest.mark.spec("V92")
def test_a_buffer_together_with_a_capacity_is_refused() -> None:
    engine = fake_engine()

    with pytest.raises(ContractViolation, match="both"):
        engine.run(engine.create_event_buffer(4), max_events=4)


def _token_then_finish(events: list[Event], request: Request) -> tuple[list[int], FinishReason]:
    mine = [event for event in events if event.request is request]
    return [event.token for event in mine if event.flags & EventFlags.TOKEN], mine[-1].finish_reason


@pytest.mark.spec("E16", "E18")
def test_the_last_token_carries_the_end_of_its_turn_and_an_end_token_is_not_shown() -> None:
    prompt = [1, 2, 3]
    third = expected_tokens(prompt, 3)[2]
    engine = fake_engine()
    limited = engine.create_request(GeneratorParams(max_generated_tokens=2))
    ended = engine.create_request(GeneratorParams(eos_token_ids=[third]))
    for request in (limited, ended):
        request.begin_turn(prompt)

    events = run_to_end(engine)

    first_two = expected_tokens(prompt, 2)
    assert _token_then_finish(events, limited) == (first_two, FinishReason.MAX_GENERATED_TOKENS)
    assert _token_then_finish(events, ended) == (first_two, FinishReason.EOS)
    assert sum(bool(event.flags & EventFlags.TURN_FINISHED) for event in events) == 2
