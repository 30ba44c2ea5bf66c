"""The waiting queue against a list, and what planning sees of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_engine.waiting import WaitingQueue
from pa_spec import Int32Array, RequestId

ROWS: Int32Array = np.array([2, 5], np.int32)
NO_ROW: Int32Array = np.zeros(0, np.int32)

_SETS = st.sets(st.integers(0, 180), max_size=12)
_STEPS = st.lists(st.one_of(st.integers(1, 90), _SETS), max_size=12)


@given(_STEPS)
@pytest.mark.spec("E41")
def test_any_order_of_joining_and_leaving_equals_a_list(steps: list[int | set[int]]) -> None:
    queue = WaitingQueue()
    model: list[tuple[int, int, int]] = []
    next_id = 0
    for step in steps:
        if isinstance(step, int):
            for request in range(next_id, next_id + step):
                queue.append(RequestId(request), request + 1, 2 * request)
                model.append((request, request + 1, 2 * request))
            next_id += step
        else:
            queue.remove(np.array(sorted(step), np.int64))
            model = [each for each in model if each[0] not in step]

        view = queue.view(ROWS)
        columns = (view.request, view.sequence_tokens, view.limit_tokens)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == model
        assert queue.requests.tolist() == [request for request, _, _ in model]
        assert len(queue) == len(model)


def _queue(count: int) -> WaitingQueue:
    queue = WaitingQueue()
    for request in range(count):
        queue.append(RequestId(request), 3, 9)
    return queue


def test_planning_sees_the_rows_that_new_requests_may_take() -> None:
    assert _queue(3).view(ROWS).free_resident.tolist() == [2, 5]


@pytest.mark.spec("E47")
def test_without_a_free_row_the_head_stands_for_the_queue() -> None:
    view = _queue(3).view(NO_ROW)

    assert view.request.tolist() == [0]
    assert len(_queue(0).view(NO_ROW).request) == 0


def test_removing_who_does_not_wait_changes_nothing() -> None:
    queue = _queue(2)

    queue.remove(np.array([7, -1], np.int64))

    assert queue.requests.tolist() == [0, 1]


def test_a_view_stays_as_it_was_when_requests_leave_and_join() -> None:
    queue = _queue(4)
    first_two = queue.view(ROWS).request[:2]

    queue.remove(np.array([0, 1], np.int64))
    queue.append(RequestId(9), 1, 1)

    assert first_two.tolist() == [0, 1]
    assert queue.requests.tolist() == [2, 3, 9]
