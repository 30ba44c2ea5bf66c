"""Numbers of a configuration, and whatever else somebody may have written in their places."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from exported_model import HALF, PAST, STEP, configured, found_in, graph, ids_in, node
from hypothesis import given
from hypothesis import strategies as st
from pa_spec.checker.graph.graph import GraphTensor, TensorSource
from pa_spec.inference.shape import SymbolicTensor

EOS = "model.eos_token_id"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (0, []),
        (511, []),
        ([2, 5], []),
        (512, ["exported.eos_id"]),
        (-1, ["exported.eos_id"]),
        ([2, 600], ["exported.eos_id"]),
        ([], ["exported.no_eos"]),
        ("2", ["exported.value"]),
        ([2, True], ["exported.value"]),
        (2.5, ["exported.value"]),
        (None, ["exported.value"]),
    ],
)
def test_ids_that_end_a_turn_are_of_the_vocabulary(ids: Any, expected: list[str]) -> None:
    assert ids_in(found_in(configured({EOS: ids}))) == expected


def test_without_an_end_the_padding_ends_a_turn() -> None:
    assert found_in(configured(without=[EOS])) == []
    assert found_in(configured(without=[EOS, "model.pad_token_id"])) == [
        f"{EOS}: eos_token_id: expected at least one id, got no such key (exported.no_eos)"
    ]


def test_a_session_is_no_longer_than_the_context() -> None:
    assert found_in(configured({"search.max_length": 1025})) == [
        (
            "search.max_length: max_length: expected at most context_length=1024, got 1025 "
            "(exported.max_length)"
        )
    ]
    assert found_in(configured({"search.max_length": 0})) == []


def test_the_context_is_no_longer_than_the_rotary_tables() -> None:
    document = configured({"model.context_length": 1025})

    assert found_in(document, graph()) == [
        (
            "model.context_length: context_length: expected at most 1024, got 1025, but cos_cache "
            "has 1024 rows (exported.rope_rows)"
        )
    ]


def test_a_table_of_unknown_length_is_not_judged() -> None:
    table = GraphTensor("cos_cache", SymbolicTensor(HALF, None), TensorSource.NODE, "If")
    first = node(0, {**STEP, **PAST})
    inputs = (*first.inputs[:8], table, table)
    other = (*node(1, {**STEP, **PAST}).inputs[:8], table, table)
    model = graph(
        nodes=[
            type(first)(**{**_fields(first), "inputs": inputs}),
            type(first)(**{**_fields(node(1, {**STEP, **PAST})), "inputs": other}),
        ]
    )

    assert found_in(configured({"model.context_length": 4096}), model) == []


def _fields(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in type(found).__dataclass_fields__}


NUMBERS = (
    "model.vocab_size",
    "model.context_length",
    "model.decoder.num_hidden_layers",
    "model.decoder.num_attention_heads",
    "model.decoder.num_key_value_heads",
    "model.decoder.head_size",
)
WRONG: tuple[Any, ...] = (
    "16",
    True,
    None,
    1.5,
    [16],
    {},
    2**31,
    2**70,
    math.nan,
    math.inf,
    -(2**63),
)


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", WRONG)
def test_what_is_no_number_in_range_is_one_finding(key: str, value: Any) -> None:
    found = ids_in(found_in(configured({key: value}), graph()))

    assert found in (["exported.value"], ["V82"])


@pytest.mark.parametrize("key", NUMBERS)
def test_an_integer_may_be_written_as_a_float(key: str) -> None:
    *path, last = key.split(".")
    found = configured()
    for part in path:
        found = found[part]

    assert found_in(configured({key: float(found[last])}), graph()) == []


@pytest.mark.parametrize("place", ["model", "model.decoder"])
@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_an_object_that_is_none_is_one_finding(place: str, value: Any) -> None:
    assert ids_in(found_in(configured({place: value}), graph())) == ["exported.value"]


@pytest.mark.parametrize("place", ["model", "model.decoder"])
def test_an_object_that_is_missing_is_one_finding(place: str) -> None:
    assert ids_in(found_in(configured(without=[place]), graph())) == ["exported.missing_key"]


MANY = 50_000


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("model.decoder.state_groups", [{"kind": "paged_kv", "layer_ids": [0]}] * MANY),
        ("model.decoder.state_groups", [{"kind": "paged_kv", "layer_ids": [0] * MANY}]),
        ("model.decoder.state_groups", [{"kind": "fixed_conv", "layer_ids": [0]}] * MANY),
        ("model.decoder.inputs", {f"key{i}": f"name%d{i}" for i in range(MANY)}),
        ("model.decoder", {f"filenam{i}": i for i in range(MANY)}),
        ("model.decoder.pipeline", [{"a": {"filename": "x"}}] * MANY),
        ("model.decoder.session_options.provider_options", [{"cuda": {}}] * MANY),
        ("model.eos_token_id", [2] * MANY),
        ("model.decoder.sliding_window", {"window_size": 4, "layers": [0] * MANY}),
    ],
)
def test_what_is_enormous_takes_seconds_at_most(place: str, value: Any) -> None:
    document = configured({place: value})
    began = time.process_time()

    found_in(document, graph())

    assert time.process_time() - began < 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
PLACES = (
    *NUMBERS,
    EOS,
    "model",
    "model.decoder",
    "model.decoder.filename",
    "model.decoder.inputs",
    "model.decoder.inputs.input_ids",
    "model.decoder.inputs.past_key_names",
    "model.decoder.outputs",
    "model.decoder.outputs.logits",
    "model.decoder.pipeline",
    "model.decoder.state_groups",
    "model.decoder.sliding_window",
    "model.decoder.session_options",
    "model.decoder.session_options.provider_options",
    "engine",
    "engine.dynamic_batching",
    "search",
)


@given(place=st.sampled_from(PLACES), value=JSON)
def test_whatever_stands_in_a_place_is_reported_or_understood(place: str, value: Any) -> None:
    for each in found_in(configured({place: value}), graph()):
        assert each.endswith(")")


@given(groups=st.lists(st.fixed_dictionaries({"kind": JSON, "layer_ids": JSON}), max_size=3))
def test_whatever_groups_are_written_are_reported_or_understood(groups: Any) -> None:
    for each in found_in(configured({"model.decoder.state_groups": groups}), graph()):
        assert each.endswith(")")
