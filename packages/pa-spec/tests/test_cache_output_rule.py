"""Goal: a cache and its output that a host cannot bind to one buffer are reported (V54)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, helper
from paged_graphs import HALF, attention_nodes, check_model_proto, decoder


def said(model: ModelProto, folder: Path) -> list[str]:
    return [str(each) for each in check_model_proto(model, folder)]


def crossed(model: ModelProto) -> None:
    first, second = attention_nodes(model)
    first.output[1], second.output[1] = second.output[1], first.output[1]


def copied_before(model: ModelProto) -> None:
    node = attention_nodes(model)[0]
    copy = helper.make_node("Identity", [node.input[3]], ["copied"], name="/copy")
    model.graph.node.insert(0, copy)
    node.input[3] = "copied"


def copied_behind(model: ModelProto) -> None:
    node = attention_nodes(model)[0]
    wanted, node.output[2] = node.output[2], "written"
    model.graph.node.append(helper.make_node("Identity", ["written"], [wanted], name="/copy"))


def another_copy(model: ModelProto) -> None:
    """Copy what the node attends to, which no rule is about."""
    output = attention_nodes(model)[0].output[0]
    copy = helper.make_node("Identity", [output], ["looked_at"], name="/copy")
    model.graph.node.append(copy)
    model.graph.output.append(helper.make_tensor_value_info("looked_at", HALF, None))


@pytest.mark.rule("V54")
@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (
            crossed,
            [
                (
                    f"model.onnx: /layers.{layer}/attn: key_cache_out: expected "
                    f"present.{layer}.key, the graph output that is bound to the buffer of "
                    f"past_key_values.{layer}.key, got present.{1 - layer}.key (V54)"
                )
                for layer in (0, 1)
            ],
        ),
        (
            copied_before,
            [
                (
                    "model.onnx: /layers.0/attn: key_cache: expected an input of the graph, so "
                    "that its buffer can be updated in place, got computed by Identity (V54)"
                )
            ],
        ),
        (
            copied_behind,
            [
                (
                    "model.onnx: /layers.0/attn: value_cache_out: expected an output of the graph, "
                    "so that it can be the buffer of past_key_values.0.value, got written, which "
                    "is none (V54)"
                )
            ],
        ),
        (another_copy, []),
    ],
)
def test_cache_that_is_not_updated_in_place_is_reported(
    change: Callable[[ModelProto], None], messages: list[str], tmp_path: Path
) -> None:
    model = decoder()
    assert said(model, tmp_path) == []

    change(model)

    assert said(model, tmp_path) == messages
