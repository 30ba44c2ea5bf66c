"""Misspelt keys and values of another type: said once, where they matter."""

from __future__ import annotations

from typing import Any

import pytest
from exported_model import configured, found_in, graph, ids_in
from pa_spec.checker import Findings, Place
from pa_spec.checker.exported.check import read_export
from pa_spec.checker.exported.named import check_slips

DECODER = "model.decoder"
INPUTS = f"{DECODER}.inputs"


def slips(document: Any) -> list[str]:
    """Check a configuration and a graph, then the keys that are left."""
    findings = Findings()
    export = read_export(document, findings)
    assert export is not None
    check_slips(export.decoder, export.root)
    return [str(each).removeprefix("genai_config.json: ") for each in findings]


def test_a_required_key_under_another_name_is_one_finding() -> None:
    document = configured({f"{DECODER}.head_dim": 32}, without=[f"{DECODER}.head_size"])

    assert found_in(document, graph()) == [
        (
            f"{DECODER}.head_size: head_size: expected a value, got no such key, "
            'but "head_dim" (exported.missing_key)'
        )
    ]
    modle = {**configured(), "modle": {}}
    del modle["model"]
    assert found_in(modle) == [
        'model: model: expected a value, got no such key, but "modle" (exported.missing_key)'
    ]


@pytest.mark.spec("V80")
def test_a_template_under_another_name_is_missed_by_its_default() -> None:
    own = {f"{INPUTS}.past_keys_names": "kc.%d"}
    document = configured(own, without=[f"{INPUTS}.past_key_names"])
    renamed = graph(without=["past_key_values.0.key", "past_key_values.1.key"])

    assert found_in(document, renamed)[:1] == [
        (
            f"{INPUTS}.past_key_names: past_key_values.0.key: expected an input of the graph, got "
            'no such input, nor are 1 more of past_key_values.%d.key, but "past_keys_names" (V80)'
        )
    ]


def test_a_key_a_letter_apart_is_a_slip_beside_the_right_one_too() -> None:
    found = slips(configured({f"{DECODER}.num_atention_heads": 9, "serach": {}}))

    assert ids_in(found) == ["exported.key_slip"] * 2
    assert slips(configured({f"{DECODER}.inputs.past_key_names_of_the_span": "x.%d"})) == []


def test_slips_of_the_file_and_of_tensor_names_are_said() -> None:
    document = configured({f"{INPUTS}.past_keys_names": "kc.%d", "serach": {}}, ["search"])
    del document["model"]["decoder"]["inputs"]["past_key_names"]

    found = slips(document)

    assert ids_in(found) == ["exported.key_slip"] * 2
    assert found[0].startswith("serach: serach: expected one of model, search, engine, got")
    assert found[1].startswith(f"{INPUTS}.past_keys_names: past_keys_names: expected one of")
    assert slips(configured({f"{INPUTS}.past_sequence_length": "past_sequence_length"})) == []


def test_a_misspelt_engine_is_what_the_dynamic_path_lacks() -> None:
    document = configured()
    document["engin"] = document.pop("engine")

    assert found_in(document, graph()) == [
        (
            "engine: dynamic_batching: expected an object, for the path that feeds a block table, "
            'got none, for 2 PagedAttention nodes, but "engin" (exported.not_dynamic)'
        )
    ]


@pytest.mark.parametrize("engine", [None, 5, [], "dynamic"])
def test_an_engine_that_is_no_object_is_said_once(engine: object) -> None:
    assert ids_in(found_in({**configured(), "engine": engine}, graph())) == ["V74"]


@pytest.mark.parametrize(
    ("place", "value", "allowed"),
    [
        (f"{DECODER}.hidden_size", "x", "an integer from 1 to 2147483647"),
        (f"{DECODER}.conv_cache_size", -1, "an integer from 0 to 2147483647"),
        (f"{DECODER}.layer_types", "x", "a list of texts"),
        (f"{DECODER}.layer_types", [1], "a list of texts"),
        (f"{DECODER}.sliding_window", [], "an object"),
        (f"{DECODER}.run_options", 5, "an object"),
        ("model.type", 5, "a text that is not empty"),
        ("model.vision", [], "an object"),
        ("model.bos_token_id", "x", "an integer"),
        ("model.pad_token_id", [2], "an integer"),
        ("model.sep_token_id", 0.5, "an integer"),
    ],
)
def test_a_value_that_nothing_here_needs_has_its_type(
    place: str, value: object, allowed: str
) -> None:
    found = found_in(configured({place: value}), graph())

    assert len(found) == 1
    name = place.rpartition(".")[2]
    assert found[0].startswith(f"{place}: {name}: expected {allowed}, got ")
    assert found[0].endswith("(exported.value)")


def test_special_tokens_are_of_the_vocabulary() -> None:
    assert found_in(configured({"model.bos_token_id": 512}), graph()) == [
        (
            "model.bos_token_id: bos_token_id: expected an id from 0 to 511, or -1 for none, got "
            "512 (exported.token_id)"
        )
    ]
    assert ids_in(found_in(configured({"model.pad_token_id": -2}), graph())) == [
        "exported.token_id"
    ]
    for value in (511, -1, None):
        assert found_in(configured({"model.pad_token_id": value}), graph()) == []


@pytest.mark.parametrize("name", ["", 3, None])
def test_an_unusable_name_is_not_missed_again(name: object) -> None:
    document = configured({f"{INPUTS}.block_table": name})

    assert ids_in(found_in(document, graph())) == ["exported.value"]


def test_findings_of_others_are_taken_with_their_number() -> None:
    others, findings = Findings(), Findings()
    for index in range(103):
        others.add("graph.cache_shared", Place("model.onnx"), f"{index}", "x", other="y")
    others.add("exported.no_eos", Place(), "eos_token_id", "no such key")

    findings.take(others)

    assert findings.omitted == {"graph.cache_shared": 3}
    assert findings.total == 104
    rest = Findings()
    rest.take(others, without=("graph.cache_shared",))
    assert [each.id for each in rest] == ["exported.no_eos"]
    assert rest.total == 1
