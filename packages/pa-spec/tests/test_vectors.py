"""Goal: the golden vectors are right. Method: count it all out the slow way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pa_spec import (
    InputUnusable,
    RequestState,
    invariants,
    request_transitions,
    rules,
    vector_names,
    vectors,
)
from pa_spec.contract.data import document

Case = Mapping[str, Any]


def name_of(case: Case) -> str:
    return str(case["id"])


def test_unknown_vectors_are_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(InputUnusable, match=r"allowed: .*packed_layout"):
        vectors("other")


@pytest.mark.parametrize("name", vector_names())
def test_cases_have_distinct_ids_and_cite_what_exists(name: str) -> None:
    ids = [case["id"] for case in vectors(name)]
    cited = set(document(f"vectors/{name}.json")["cites"])

    assert len(set(ids)) == len(ids) > 0
    assert cited <= {*rules(), *invariants()}


@pytest.mark.spec("E51", "E68", "E69")
@pytest.mark.parametrize("case", vectors("packed_layout"), ids=name_of)
def test_packed_layout_counts_out(case: Case) -> None:
    places = [(row, place) for row, tokens in enumerate(case["tokens"]) for place in range(tokens)]
    first = [places.index((row, 0)) for row in range(len(case["tokens"]))]
    last = [places.index((row, tokens - 1)) for row, tokens in enumerate(case["tokens"])]
    targets = [past + tokens for past, tokens in zip(case["past"], case["tokens"], strict=True)]

    assert case["packed_offset"] == first
    assert case["cumulative_sequence_length"] == [*first, len(places)]
    assert case["positions"] == [case["past"][row] + place for row, place in places]
    assert case["logits_rows"] == [
        row for row, samples in zip(last, case["samples"], strict=True) if samples
    ]
    assert case["target_tokens"] == targets
    assert case["attention_metadata"] == [max(case["tokens"]), max(targets), max(targets)]


@pytest.mark.parametrize("case", vectors("derived_slots"), ids=name_of)
def test_derived_slots_count_out(case: Case) -> None:
    slots = []
    for row, past in enumerate(case["past_seqlens"]):
        first, end = case["cumulative_sequence_length"][row : row + 2]
        for position in range(past, past + end - first):
            column, offset = divmod(position, case["block_size"])
            block = case["block_table"][row][column]
            mapped = 0 <= block < case["num_blocks"]
            slots.append(block * case["block_size"] + offset if mapped else -1)

    assert case["slots"] == slots


def blocks_of(tokens: int, block_size: int) -> int:
    return len(range(0, tokens, block_size))


@pytest.mark.spec("E45")
@pytest.mark.parametrize(
    "case", [case for case in vectors("admission_arithmetic") if "growth" in case], ids=name_of
)
def test_growth_counts_out(case: Case) -> None:
    longest = max(case["sequence"], case["committed"] + 1)

    assert case["growth"] == max(0, blocks_of(longest, case["block_size"]) - case["owned"])


@pytest.mark.spec("E44", "E46", "E48")
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

    assert found == {kind: case[kind] for kind in found}


@pytest.mark.spec("E8")
@pytest.mark.parametrize("case", vectors("request_lifecycles"), ids=name_of)
def test_lifecycles_follow_the_transitions(case: Case) -> None:
    state, states = RequestState.UNASSIGNED, ["UNASSIGNED"]
    for event in case["events"]:
        state = request_transitions()[state, event]
        states.append(state.name)

    assert case["states"] == states
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
