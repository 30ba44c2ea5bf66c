"""Goal: the golden vectors of scheduling, admission and turns are right.

Method: count it all out the slow way, one token and one candidate after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pa_spec import RequestState, request_transitions, vectors
from step_simulation import Simulation

Case = Mapping[str, Any]


def name_of(case: Case) -> str:
    return str(case["id"])


def blocks_of(tokens: int, block_size: int) -> int:
    return len(range(0, tokens, block_size))


@pytest.mark.spec("E45")
@pytest.mark.parametrize(
    "case", [case for case in vectors("admission_arithmetic") if "growth" in case], ids=name_of
)
def test_growth_counts_out(case: Case) -> None:
    longest = max(case["sequence"], case["committed"] + 1)

    assert case["growth"] == max(0, blocks_of(longest, case["block_size"]) - case["owned"])


@pytest.mark.spec("E44", "E46", "E47", "E48")
@pytest.mark.parametrize(
    "case", [case for case in vectors("admission_arithmetic") if "candidates" in case], ids=name_of
)
def test_admission_counts_out(case: Case) -> None:
    found: dict[str, list[int]] = {"selected": [], "deferred": [], "unserviceable": []}
    free, new = case["free_blocks"], 0
    for place, row in enumerate(case["candidates"]):
        blocks = blocks_of(max(row["sequence"], row["committed"] + 1), case["block_size"])
        growth = max(0, blocks - row["owned"])
        admitted = row["resident"] or case["residents"] + new < case["resident_limit"]
        if blocks > min(case["total_blocks"], case["columns"]):
            found["unserviceable"].append(place)
        elif len(found["selected"]) < case["row_limit"] and admitted and growth <= free:
            found["selected"].append(place)
            free -= growth
            new += not row["resident"]
        else:
            found["deferred"].append(place)

    ladder = {
        "selected": "EXECUTABLE",
        "unserviceable": "UNSERVICEABLE",
        "deferred": "CAPACITY_DEFERRED",
    }
    outcome = next((word for kind, word in ladder.items() if found[kind]), "NO_WORK")
    assert found == {kind: case[kind] for kind in found}
    assert case["outcome"] == outcome


@pytest.mark.spec("E8", "E12", "E18")
@pytest.mark.parametrize("case", vectors("request_lifecycles"), ids=name_of)
def test_lifecycles_follow_the_transitions(case: Case) -> None:
    state, states = RequestState.UNASSIGNED, ["UNASSIGNED"]
    for event in case["events"]:
        state = request_transitions()[state, event]
        states.append(state.name)

    completed = [each for each in case["events"] if each in {"finish", "fail", "cancel_turn"}]
    assert case["states"] == states
    assert case["turn_ids"] == list(range(1, case["events"].count("begin_turn") + 1))
    assert case["terminal_events"] == len(completed)
    assert (state, case["refused"]) not in request_transitions()


@pytest.mark.spec("E70")
@pytest.mark.parametrize("case", vectors("captured_metadata"), ids=name_of)
def test_captured_metadata_counts_out(case: Case) -> None:
    columns, size = case["columns"], case["block_size"]
    below = max((2**n for n in range(3, 30) if 2**n < columns), default=0)
    lower = below * size + 1
    lower = lower if below and case["longest"] >= lower else 1

    assert case["attention_metadata"] == [1, columns * size, lower]
    assert case["longest"] <= columns * size


@pytest.mark.spec("E50")
@pytest.mark.parametrize("case", vectors("token_budgets"), ids=name_of)
def test_token_budgets_count_out(case: Case) -> None:
    """Hand out the tokens one by one."""
    tokens = [1] * len(case["rows"])
    left = case["max_scheduled_tokens"] - len(tokens)
    for place, row in enumerate(case["rows"]):
        is_prefill = row["committed"] < row["prompt"]
        while (
            is_prefill
            and left
            and row["committed"] + tokens[place] < row["sequence"]
            and (not case["cap"] or tokens[place] < case["cap"])
        ):
            tokens[place] += 1
            left -= 1

    chunk, ring = case["chunk_tokens"], case["ring_tokens"]
    assert case["cap"] == (ring if ring and (chunk == 0 or chunk > ring) else chunk)
    assert case["tokens"] == tokens


@pytest.mark.spec("E41", "E42", "E43", "E44", "E45", "E46", "E47", "E48", "E50")
@pytest.mark.parametrize("case", vectors("engine_steps"), ids=name_of)
def test_stories_of_an_engine_count_out(case: Case) -> None:
    steps, ends = Simulation(case).run()

    assert case["steps"] == steps
    assert case["ends"] == ends


@pytest.mark.spec("E13", "E14", "E16")
@pytest.mark.parametrize("case", vectors("turn_ends"), ids=name_of)
def test_ends_of_turns_count_out(case: Case) -> None:
    sequence = 0
    for turn in case["turns"]:
        sequence += turn["prompt"]
        tokens, reason = [], ""
        for answer in turn["answers"]:
            assert not reason
            if answer in case["eos_token_ids"]:
                reason = "EOS"
                continue
            tokens.append(answer)
            sequence += 1
            if len(tokens) == turn["limit"]:
                reason = "MAX_GENERATED_TOKENS"
            elif sequence == case["max_session_tokens"]:
                reason = "MAX_SESSION_TOKENS"

        assert turn["tokens"] == tokens
        assert turn["finish_reason"] == reason
        assert turn["sequence_tokens"] == sequence
    room = case["max_session_tokens"] - sequence - 1
    assert case["refused_prompt"] == max(room, 0) + 1


@pytest.mark.spec("E122")
@pytest.mark.parametrize("case", vectors("column_buckets"), ids=name_of)
def test_column_buckets_count_out(case: Case) -> None:
    columns = 8
    while columns < blocks_of(case["longest"], case["block_size"]):
        columns += columns

    assert case["columns"] == min(
        [columns, *([case["max_columns"]] if case["max_columns"] else [])]
    )
