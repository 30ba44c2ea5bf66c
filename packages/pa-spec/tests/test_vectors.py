"""Goal: the golden vectors are right. Method: count it all out the slow way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attention_evaluator import rounded_to_float8, rounded_to_int8
from pa_spec import (
    ContractViolation,
    InputUnusable,
    check_lengths,
    invariants,
    rules,
    validate,
    vector_names,
    vectors,
)
from pa_spec.contract.data import document
from pa_spec.testing import example_call

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


@pytest.mark.spec("V65", "V66", "V67", "V105")
@pytest.mark.parametrize("case", vectors("call_values"), ids=name_of)
def test_contents_that_break_a_rule_stand_in_legal_shapes(case: Case) -> None:
    signature = example_call(case["mode"], case["changes"])
    own = dict(signature.inputs.named())

    assert validate(signature) == ()
    assert set(case["neighbour"]) <= set(case["values"])
    for name, values in (*case["values"].items(), *case["neighbour"].items()):
        tensor = own[name]
        assert tensor is not None
        assert tensor.shape == (len(values),)


@pytest.mark.spec("V65")
@pytest.mark.parametrize(
    "case",
    [each for each in vectors("call_values") if each["rule"] == "V65" and not each["changes"]],
    ids=name_of,
)
def test_lengths_are_refused_and_their_neighbours_are_not(case: Case) -> None:
    def examine(values: Mapping[str, Any]) -> None:
        boundaries = np.array(values["cumulative_sequence_length"], np.int32)
        past = np.array(values.get("past_seqlens", [0, 0]), np.int32)
        check_lengths(boundaries, past, tokens=5, capacity=64)

    with pytest.raises(ContractViolation, match=r"\(V65\)"):
        examine(case["values"])
    examine({**case["values"], **case["neighbour"]})


@pytest.mark.parametrize("case", vectors("quantization_rounding"), ids=name_of)
def test_stores_in_eight_bits_count_out(case: Case) -> None:
    rounded = {"int8": rounded_to_int8, "float8e4m3fn": rounded_to_float8}[case["element_type"]]
    stored = [rounded(each / case["scale"]) for each in case["values"]]

    assert case["stored"] == stored
    assert case["loaded"] == [each * case["scale"] for each in stored]


def place_in_ring(case: Case, position: int) -> int:
    """Walk through the ring block by block."""
    column, offset = divmod(position, case["block_size"])
    while column >= len(case["ring"]):
        column -= len(case["ring"])
    return int(case["ring"][column] * case["block_size"] + offset)


@pytest.mark.spec("E101", "E102", "E103", "E104")
@pytest.mark.parametrize("case", vectors("ring_positions"), ids=name_of)
def test_ring_positions_count_out(case: Case) -> None:
    """A ring must hold the window of the oldest query of a step, and the step's own tokens."""
    window, chunk, past = case["window"], case["chunk"], case["past"]
    live = list(range(max(0, past - window + 1), past + chunk))
    slots = [place_in_ring(case, each) for each in live]
    one_more = [*slots, place_in_ring(case, past + chunk)]

    assert (
        case["ring_blocks"]
        == len(case["ring"])
        == blocks_of(window - 1 + chunk, case["block_size"])
    )
    assert case["table"] == [case["ring"][j % len(case["ring"])] for j in range(len(case["table"]))]
    assert case["live_positions"] == live
    assert case["slots"] == slots
    assert len(set(slots)) == len(slots)
    assert case["one_token_more_overwrites"] == (len(set(one_more)) < len(one_more))


@pytest.mark.parametrize("case", vectors("rolling_window"), ids=name_of)
def test_rolling_windows_count_out(case: Case) -> None:
    size, window, past = case["block_size"], case["window"], case["past"]
    seen = range(max(0, past - window + 1), past + case["tokens"])
    live = {position // size for position in seen}
    table = [
        case["ring"][column % len(case["ring"])] if column in live else -1
        for column in range(len(case["table"]))
    ]

    assert case["ring_blocks"] == len(case["ring"]) == blocks_of(window, size) + 1
    assert case["table"] == table
    assert case["slot_mapping"] == [place_in_ring(case, each) for each in seen[-case["tokens"] :]]
    assert case["recyclable_blocks"] == min(live)
    assert len(live) <= len(case["ring"])
