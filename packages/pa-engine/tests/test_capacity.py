"""Pools that are too small, now or for ever, and batches of any size."""

from __future__ import annotations

import pytest
from lifecycle_cases import PROMPT, drain, make_engine, tokens_of
from pa_engine import (
    Event,
    GeneratorParams,
)
from pa_engine.testing import (
    expected_tokens,
)
from pa_spec import (
    ErrorCode,
    EventFlags,
    Outcome,
    RequestState,
)


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
