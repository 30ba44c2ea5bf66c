"""Events as columns, as objects, and in the queue."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from engine_cases import fake_engine
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import Event, EventBatch, GeneratorParams, Usage
from pa_engine.events import (
    CODE,
    FLAGS,
    GENERATED,
    NO_REQUEST,
    PROMPT,
    REASON,
    REQUEST,
    TOKEN,
    TURN,
    EventQueue,
    empty_columns,
    engine_event,
)
from pa_spec import (
    NO_TOKEN,
    ErrorCode,
    EventFlags,
    FinishReason,
    Int64Array,
    RequestId,
    TurnId,
)


def _columns(*events: tuple[int, int, int]) -> Int64Array:
    """Return token events: (request, turn, token) each."""
    columns = empty_columns(len(events))
    columns[FLAGS] = int(EventFlags.TOKEN)
    for place, (request, turn, token) in enumerate(events):
        columns[REQUEST, place], columns[TURN, place], columns[TOKEN, place] = request, turn, token
    return columns


def _terminal(request: int, turn: int, reason: FinishReason) -> Int64Array:
    columns = empty_columns(1)
    columns[REQUEST], columns[TURN], columns[REASON] = request, turn, int(reason)
    columns[FLAGS] = int(EventFlags.TURN_FINISHED)
    columns[PROMPT], columns[GENERATED] = 5, 2
    return columns


def _tokens(queue: EventQueue) -> list[int]:
    tokens: list[int] = queue.columns[TOKEN].tolist()
    return tokens


def test_columns_and_events_say_the_same() -> None:
    batch = EventBatch(
        np.concatenate((_columns((3, 1, 70)), _terminal(4, 2, FinishReason.EOS)), 1), {}
    )

    assert batch.tokens.tolist() == [70, NO_TOKEN]
    assert batch.requests.tolist() == [3, 4]
    assert batch.turns.tolist() == [1, 2]
    assert batch.flags.tolist() == [EventFlags.TOKEN, EventFlags.TURN_FINISHED]
    assert list(batch) == [
        Event(
            EventFlags.TOKEN, None, TurnId(1), 70, FinishReason.NONE, ErrorCode.NONE, Usage(0, 0, 0)
        ),
        Event(
            EventFlags.TURN_FINISHED,
            None,
            TurnId(2),
            -1,
            FinishReason.EOS,
            ErrorCode.NONE,
            Usage(5, 2, 0),
        ),
    ]


def test_an_event_of_the_engine_concerns_no_request_and_no_turn() -> None:
    columns = engine_event(EventFlags.RETRYABLE, ErrorCode.RETRYABLE_EXECUTION)

    (event,) = EventBatch(columns, {})

    assert columns[REQUEST].tolist() == [NO_REQUEST]
    assert (event.request, event.turn_id, event.token) == (None, 0, NO_TOKEN)
    assert event.error_code is ErrorCode.RETRYABLE_EXECUTION


@given(st.integers(0, 6), st.data())
def test_a_batch_is_sliced_and_indexed_like_a_list(count: int, data: st.DataObject) -> None:
    batch = EventBatch(_columns(*((7, 1, token) for token in range(count))), {})
    events = list(batch)
    part = data.draw(st.slices(count))

    assert list(batch[part]) == events[part]
    assert len(batch) == count
    assert [batch[-1 - place] for place in range(count)] == events[::-1]
    for outside in (count, -count - 1):
        with pytest.raises(IndexError):
            batch[outside]


def test_a_queue_delivers_in_order_and_keeps_the_rest() -> None:
    queue = EventQueue({})
    queue.append(_columns((0, 1, 10), (1, 1, 11)))
    queue.append(_columns((0, 1, 12)))

    first = queue.drain(2)

    assert first[TOKEN].tolist() == [10, 11]
    assert _tokens(queue) == [12]
    assert queue.drain(9)[TOKEN].tolist() == [12]
    assert len(queue) == 0


@pytest.mark.spec("E20")
def test_purging_forgets_one_request_and_keeps_the_order_of_the_others() -> None:
    queue = EventQueue({})
    queue.append(_columns((0, 1, 10), (1, 1, 11), (0, 1, 12), (2, 1, 13)))

    queue.purge(RequestId(0))

    assert _tokens(queue) == [11, 13]
    assert not queue.concerns(RequestId(0))
    assert queue.concerns(RequestId(2))


@pytest.mark.spec("E18", "E19")
def test_a_terminal_event_merges_into_the_newest_token_of_its_own_turn() -> None:
    queue = EventQueue({})
    queue.append(_columns((4, 2, 20), (4, 2, 21), (5, 2, 22), (4, 1, 23)))

    merged = queue.merge_terminal(_terminal(4, 2, FinishReason.CANCELLED))

    assert merged
    assert _tokens(queue) == [20, 21, 22, 23]
    assert queue.columns[FLAGS].tolist() == [1, 3, 1, 1]
    assert queue.columns[REASON].tolist() == [0, int(FinishReason.CANCELLED), 0, 0]
    assert queue.columns[[CODE, PROMPT, GENERATED], 1].tolist() == [0, 5, 2]


@pytest.mark.spec("E19")
def test_a_terminal_event_without_a_token_of_its_turn_is_not_merged() -> None:
    queue = EventQueue({})
    queue.append(_columns((4, 1, 20), (5, 2, 21)))
    before = queue.columns.copy()

    assert not queue.merge_terminal(_terminal(4, 2, FinishReason.CANCELLED))
    assert queue.columns.tolist() == before.tolist()


@pytest.mark.spec("E23", "E33")
def test_merging_does_not_change_a_batch_that_was_delivered() -> None:
    queue = EventQueue({})
    queue.append(_columns((4, 1, 20), (4, 1, 21)))
    delivered = EventBatch(queue.drain(1), {})

    queue.merge_terminal(_terminal(4, 1, FinishReason.CANCELLED))

    assert [event.flags for event in delivered] == [EventFlags.TOKEN]


@pytest.mark.spec("E22")
def test_a_batch_and_a_buffer_hold_no_handle() -> None:
    engine = fake_engine()
    buffer = engine.create_event_buffer(8)
    request = engine.create_request(GeneratorParams(max_generated_tokens=3))
    request.begin_turn([1, 2])
    kept = (engine.run(), engine.run(buffer))
    assert [event.request for batch in kept for event in batch] == [request, request]
    dies = weakref.ref(request)

    del request
    gc.collect()

    assert dies() is None
    assert [event.request for batch in kept for event in batch] == [None, None]
    assert [batch.requests.tolist() for batch in kept] == [[0], [0]]
    assert not engine.has_pending_requests()
