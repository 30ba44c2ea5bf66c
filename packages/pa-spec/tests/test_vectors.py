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
    RequestState,
    check_lengths,
    invariants,
    request_transitions,
    rules,
    validate,
    vector_names,
    vectors,
)
from pa_spec.contract.data import document
from pa_spec.testing import example_call
from step_simulation import Simulation

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
