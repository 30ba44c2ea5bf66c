"""State groups and name templates of a configuration alone.

Method: a small sound configuration, one change, and the whole list of messages.
"""

from __future__ import annotations

from typing import Any

import pytest
from exported_model import configured, found_in, graph

GROUPS = "model.decoder.state_groups"
FIXED = {"kind": "fixed_conv", "layer_ids": [0]}


def groups(*values: Any) -> Any:
    return configured({GROUPS: list(values)})


def paged(layers: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "paged_kv", "layer_ids": layers, **more}


@pytest.mark.rule("V76")
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            configured({GROUPS: {"kind": "paged_kv"}}),
            (
                "model.decoder.state_groups: state_groups: expected a list of groups, "
                "got an object of 1 keys (V76)"
            ),
        ),
        (
            groups(),
            (
                "model.decoder.state_groups: state_groups: expected at least one group, or no "
                "state_groups, got no group (V76)"
            ),
        ),
        (
            groups("paged_kv"),
            (
                "model.decoder.state_groups[0]: state_groups: expected an object with kind and "
                'layer_ids, got "paged_kv" (V76)'
            ),
        ),
        (
            groups({"layer_ids": [0, 1]}),
            (
                "model.decoder.state_groups[0].kind: kind: expected a kind, one of paged_kv, "
                "fixed_conv, fixed_recurrent, got no such key (V76)"
            ),
        ),
        (
            groups({"kind": "paged-kv", "layer_ids": [0, 1]}),
            (
                "model.decoder.state_groups[0].kind: kind: expected one of paged_kv, fixed_conv, "
                'fixed_recurrent, got "paged-kv" (did you mean paged_kv?) (V76)'
            ),
        ),
        (
            groups(paged([0, 1]), {"kind": "fixed", "layer_ids": [0]}),
            (
                "model.decoder.state_groups[1].kind: kind: expected fixed_conv or fixed_recurrent; "
                'fixed is their old name, got "fixed" (V76)'
            ),
        ),
        (
            groups(paged([0, 1], bindings={"key": "k"})),
            (
                "model.decoder.state_groups[0].bindings: bindings: expected absent, because "
                "layer_ids and the name templates bind a group, got given (V76)"
            ),
        ),
    ],
)
def test_groups_that_cannot_be_read_are_refused(document: Any, message: str) -> None:
    assert found_in(document, graph()) == [message]


@pytest.mark.rule("V76")
def test_without_groups_all_layers_are_paged() -> None:
    assert found_in(configured(without=[GROUPS]), graph()) == []


@pytest.mark.spec("V77")
@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (None, "expected at least one layer id, got no list (V77)"),
        ([], "expected at least one layer id, got an empty list (V77)"),
        ([0, 2], "expected layer ids from 0 to 1, got 2 (V77)"),
        ([-1, 0], "expected layer ids from 0 to 1, got -1 (V77)"),
        ([0, 0], "expected each layer id once, got 0 again (V77)"),
        ([0, "1"], 'expected a list of integers, got "1" (V77)'),
        ([0, True], "expected a list of integers, got true (V77)"),
        ([0, 0.5], "expected a list of integers, got 0.5 (V77)"),
        ("01", 'expected a list of integers, got "01" (V77)'),
    ],
)
def test_layer_ids_that_are_not_there_are_reported_once(layers: Any, message: str) -> None:
    place = "model.decoder.state_groups[0].layer_ids: layer_ids: "

    assert found_in(groups(paged(layers)), graph()) == [place + message]


@pytest.mark.spec("V82")
def test_two_paged_groups_are_one_finding_even_when_they_share_a_layer() -> None:
    expected = (
        "model.decoder.state_groups: state_groups: expected exactly one group of kind paged_kv, "
        "got 2 of them (V82)"
    )

    assert found_in(groups(paged([0]), paged([1])), graph()) == [expected]
    assert found_in(groups(paged([0, 1]), paged([1])), graph()) == [expected]


@pytest.mark.spec("V77")
def test_a_layer_in_two_paged_groups_is_refused_without_an_engine_too() -> None:
    document = configured({GROUPS: [paged([0, 1]), paged([1])]}, without=["engine"])

    assert found_in(document) == [
        (
            "model.decoder.state_groups: layer_ids: expected each layer in one paged_kv group, "
            "got 1 in two (V77)"
        )
    ]


@pytest.mark.spec("V82")
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_key_value_heads", "head_size"])
def test_a_decoder_without_extent_is_refused(key: str) -> None:
    document = configured({f"model.decoder.{key}": 0})

    assert found_in(document) == [
        f"model.decoder.{key}: {key}: expected an integer above 0, got 0 (V82)"
    ]


@pytest.mark.rule("V83")
def test_fixed_state_needs_the_dynamic_path() -> None:
    fixed = {GROUPS: [paged([1]), FIXED], "engine": {"static_batching": {"max_batch_size": 2}}}

    assert found_in(configured(fixed)) == [
        (
            "model.decoder.state_groups: state_groups: expected paged_kv groups only, without "
            "engine.dynamic_batching, got fixed_conv (V83)"
        )
    ]
    assert found_in(groups(paged([1]), FIXED)) == []
    assert found_in(configured({"engine": {"static_batching": {"max_batch_size": 2}}})) == []


@pytest.mark.rule("V78")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'expected a tensor name with one %d, got "" (V78)'),
        (
            "past.key",
            'expected a tensor name with exactly one %d and no other %, got "past.key" (V78)',
        ),
        (
            "past.%d.%d",
            'expected a tensor name with exactly one %d and no other %, got "past.%d.%d" (V78)',
        ),
        (
            "past.%d.%s",
            'expected a tensor name with exactly one %d and no other %, got "past.%d.%s" (V78)',
        ),
        (7, "expected a text with one %d, got 7 (V78)"),
        (None, "expected a text with one %d, got null (V78)"),
    ],
)
def test_a_template_has_exactly_one_layer_id(text: Any, message: str) -> None:
    document = configured({"model.decoder.inputs.past_key_names": text})

    assert found_in(document, graph()) == [
        f"model.decoder.inputs.past_key_names: past_key_names: {message}"
    ]


@pytest.mark.rule("V78")
def test_a_template_that_is_not_given_has_its_default() -> None:
    document = configured(without=["model.decoder.inputs.past_key_names", "model.decoder.outputs"])

    assert found_in(document, graph()) == []


@pytest.mark.rule("V79")
def test_two_templates_name_different_tensors() -> None:
    document = configured({"model.decoder.inputs.past_value_names": "past_key_values.%d.key"})
    same = configured({"model.decoder.outputs.present_key_names": "past_key_values.%d.key"})

    assert found_in(document) == [
        (
            "model.decoder.inputs.past_value_names: past_value_names: expected another tensor name "
            'than past_key_names has, got "past_key_values.%d.key" (V79)'
        )
    ]
    assert found_in(same) == []  # An input and an output may have one name.


@pytest.mark.spec("V79")
def test_one_layer_in_two_groups_of_one_fixed_kind_is_one_tensor_name_twice() -> None:
    assert found_in(groups(paged([1]), FIXED, FIXED)) == [
        (
            "model.decoder.inputs.past_conv_names: past_conv_names: expected another tensor name "
            "than another group of kind fixed_conv has, got layer 0 (V79)"
        )
    ]


def test_a_slip_in_a_key_is_told_from_a_key_of_a_newer_reader() -> None:
    slip = configured({"model.decoder.slidding_window": {}})
    newer = configured({"model.decoder.rotary_cache_kind": 2})

    assert [each.rpartition(", got ")[2] for each in found_in(slip)] == [
        '"slidding_window" (did you mean sliding_window?) (exported.key_slip)'
    ]
    assert found_in(newer) == []
