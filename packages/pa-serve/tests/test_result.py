from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from pa_serve.result import InputOrder, Result


def test_an_answer_has_exactly_the_documented_members() -> None:
    result = Result(3, "x", "hi", None, "there", (5, 6), "eos", 2, 3, 1)

    assert json.loads(result.as_json()) == {
        "index": 3,
        "prompt": "hi",
        "text": "there",
        "token_ids": [5, 6],
        "finish_reason": "eos",
        "usage": {"prompt_tokens": 2, "generated_tokens": 3, "cached_prompt_tokens": 1},
    }


def test_a_failure_carries_the_error_and_its_place_instead() -> None:
    result = Result(3, "in.jsonl line 4", None, "prompt: empty")

    assert json.loads(result.as_json()) == {
        "index": 3,
        "prompt": None,
        "error": "in.jsonl line 4: prompt: empty",
    }


@given(st.text(st.characters(exclude_categories=[])), st.booleans())
def test_any_text_is_one_line_that_reads_back(text: str, ascii_only: bool) -> None:  # noqa: FBT001
    line = Result(0, "", text, text=text).as_json(ascii_only=ascii_only)

    assert len(line.splitlines()) == 1
    assert json.loads(line.encode())["text"] == text
    assert not ascii_only or line.isascii()


@given(st.permutations(range(12)))
def test_results_leave_in_the_order_of_the_input(arrival: list[int]) -> None:
    order, left = InputOrder(), []

    for index in arrival:
        left += [due.index for due in order.add(Result(index, "", ""))]
        assert left == list(range(len(left)))

    assert left == list(range(12))


@given(st.lists(st.integers(0, 30), unique=True))
def test_what_waits_behind_a_missing_result_is_not_lost(arrival: list[int]) -> None:
    order, left = InputOrder(), []
    for index in arrival:
        left += [due.index for due in order.add(Result(index, "", ""))]

    left += [due.index for due in order.rest()]

    assert left == sorted(arrival)
