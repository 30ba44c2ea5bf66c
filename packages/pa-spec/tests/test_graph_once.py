"""Goal: one mistake of a file is one finding, whatever else follows from it.

Method: attributes given twice or as something else, names used twice, shapes and types that leave
others unknown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from paged_graphs import attention_nodes, check_model_proto, decoder


@pytest.mark.parametrize("value", [4, 3])
def test_an_attribute_that_is_given_twice(value: int, tmp_path: Path) -> None:
    model = decoder()
    for index in (0, 1):
        node = attention_nodes(model)[index]
        node.attribute.insert(index, helper.make_attribute("num_heads", value))
    model.graph.node[0].attribute.extend([helper.make_attribute("axis", 0)] * 2)

    expected = "expected a name that is given once, got given again (graph.duplicate_name)"
    assert list(map(str, check_model_proto(model, tmp_path))) == [
        f"model.onnx: /embed: axis: {expected}",
        f"model.onnx: /layers.0/attn: num_heads: {expected}",
        f"model.onnx: /layers.1/attn: num_heads: {expected}",
    ]


@pytest.mark.parametrize(
    ("value", "actual"),
    [
        ([4], "(4,) (a list)"),
        ("4", "'4' (string)"),
        (4.0, "4.0 (float)"),
        (helper.make_tensor("x", TensorProto.INT64, [], [4]), "a value of another type"),
    ],
)
def test_an_attribute_of_another_type_loses_no_shapes(
    value: Any, actual: str, tmp_path: Path
) -> None:
    model = decoder(1)
    attribute = next(e for e in attention_nodes(model)[0].attribute if e.name == "num_heads")
    attribute.CopyFrom(helper.make_attribute("num_heads", value))

    (found,) = check_model_proto(model, tmp_path)

    assert found.id == "graph.attribute_type"
    assert found.actual.startswith(actual)


def test_an_attribute_that_refers_to_a_functions_is_none(tmp_path: Path) -> None:
    model = decoder(1)
    attribute = next(e for e in attention_nodes(model)[0].attribute if e.name == "num_heads")
    attribute.ref_attr_name = "heads"

    (found,) = check_model_proto(model, tmp_path)

    assert (found.id, found.name) == ("graph.attribute_type", "num_heads")


def test_a_name_that_one_node_uses_twice(tmp_path: Path) -> None:
    model = decoder(1)
    model.graph.node.append(helper.make_node("Add", ["z", "z"], ["z"], name="/add"))
    model.graph.node.append(helper.make_node("Add", ["no", "no"], ["x"], name="/other"))

    found = check_model_proto(model, tmp_path)

    assert [(each.id, each.place.inside) for each in found] == [
        ("graph.not_sorted", "/add"),
        ("graph.undefined_name", "/other"),
    ]


def test_negative_dimensions_of_a_shared_table(tmp_path: Path) -> None:
    model = decoder()
    table = next(each for each in model.graph.initializer if each.name == "cos_cache")
    table.dims[0] = -1

    assert [each.id for each in check_model_proto(model, tmp_path)] == ["graph.tensor_size"]


@pytest.mark.parametrize("kind", ["sequence_type", "optional_type"])
def test_a_cache_that_is_no_tensor(kind: str, tmp_path: Path) -> None:
    model = decoder()
    cache = next(e for e in model.graph.input if e.name == "past_key_values.0.key")
    element = type(cache.type)()
    element.CopyFrom(cache.type)
    cache.type.Clear()
    getattr(cache.type, kind).elem_type.CopyFrom(element)

    assert [each.id for each in check_model_proto(model, tmp_path)] == ["V98"]
