"""Goal: text that is no UTF-8 ends the check with findings that say where it stands.

Method: one byte of a model's file is made 0xff, which no UTF-8 has.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import ModelProto, helper
from paged_graphs import HALF, attention_nodes, check_model_proto, decoder

EXPECTED = "expected text encoded in UTF-8, got"


def model() -> ModelProto:
    """Return a decoder with text in every kind of message."""
    found = decoder(1)
    found.producer_name = "PRODUCER"
    found.metadata_props.add(key="KEY", value="VALUE")
    found.graph.name = "GRAPH"
    attention_nodes(found)[0].attribute.append(helper.make_attribute("ATTRIBUTE", 1))
    found.graph.value_info.append(helper.make_tensor_value_info("TYPED", HALF, ["LENGTH"]))
    stored = found.graph.initializer.add(name="STORED", data_type=HALF, dims=[1])
    stored.external_data.add(key="location", value="LOCATION")
    body = helper.make_graph([helper.make_node("INNER", [], ["z"])], "body", [], [])
    found.graph.node.append(helper.make_node("If", ["norm"], ["y"], name="if", then_branch=body))
    node = helper.make_node("Identity", ["FED"], ["MADE"], domain="DOMAIN")
    imports = [helper.make_opsetid("IMPORT", 1)]
    found.functions.append(
        helper.make_function("OWN", "FUNCTION", ["FED"], ["MADE"], [node], imports)
    )
    found.graph.node[0].doc_string = "DESCRIPTION"
    return found


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("PRODUCER", "producer_name"),
        ("KEY", "key"),
        ("VALUE", "value"),
        ("GRAPH", "name"),
        ("ATTRIBUTE", "/layers.0/attn: name"),
        ("TYPED", r"\xffYPED: name"),
        ("LENGTH", "TYPED: dim_param"),
        ("STORED", r"\xffTORED: name"),
        ("LOCATION", "STORED: value"),
        ("INNER", "if > z: op_type"),
        ("DOMAIN", "FUNCTION > MADE: domain"),
        ("IMPORT", "FUNCTION: domain"),
        ("OWN", "FUNCTION: domain"),
        ("FUNCTION", r"\xffUNCTION: name"),
        ("qkv0", "/0/qkv: output"),
        ("PagedAttention", "/layers.0/attn: op_type"),
        ("input_ids", "/embed: input"),
    ],
)
def test_a_wrong_byte_is_reported_where_it_stands(word: str, place: str, tmp_path: Path) -> None:
    data = model().SerializeToString().replace(word.encode(), b"\xff" + word[1:].encode(), 1)

    found = check_model_proto(data, tmp_path)

    assert list(map(str, found)) == [
        rf"model.onnx: {place}: {EXPECTED} '\xff{word[1:]}' (graph.not_utf8)"
    ]


def test_every_wrong_text_is_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    data = model().SerializeToString().replace(b"qkv0", b"qkv\xff")

    found = check_model_proto(data, tmp_path)

    assert [each.place.inside for each in found] == ["/0/qkv", "/layers.0/attn", r"qkv\xff"]


def test_a_description_in_another_encoding_is_left_alone(tmp_path: Path) -> None:
    right = decoder(1)
    right.graph.node[0].doc_string = "DESCRIPTION"
    data = right.SerializeToString().replace(b"DESCRIPTION", b"D\xc9SCRIPTION")

    assert check_model_proto(data, tmp_path) == ()
