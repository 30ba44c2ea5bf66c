"""Goal: caches are fed, updated in place and owned by one node; bounds come from the host.

Method: a decoder of two layers with one thing rewired.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, NodeProto, helper
from paged_graphs import HALF, Node, attention_nodes, check_model_proto, decoder, weight


def checked(folder: Path, change: Callable[[ModelProto], None]) -> list[str]:
    """Check a decoder after a change, without "model.onnx: /layers.1/attn: "."""
    model = decoder()
    change(model)
    found = map(str, check_model_proto(model, folder))
    return [each.removeprefix("model.onnx: ").removeprefix("/layers.1/attn: ") for each in found]


def last(model: ModelProto) -> NodeProto:
    """Return the attention node of the second layer."""
    return attention_nodes(model)[1]


def insert(model: ModelProto, node: NodeProto) -> None:
    """Put a node before all others."""
    rest = [NodeProto.FromString(each.SerializeToString()) for each in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([node, *rest])


def test_a_decoder_as_exported_has_no_findings(tmp_path: Path) -> None:
    assert checked(tmp_path, lambda _: None) == []


def test_two_outputs_that_could_be_a_caches_are_not_held_against_a_node(tmp_path: Path) -> None:
    def ambiguous(model: ModelProto) -> None:
        last(model).output[1] = "cache.7.key"
        edge = next(each for each in model.graph.output if each.name == "present.1.key")
        edge.name = "cache.7.key"
        for name in ("first.1.key", "second.1.key"):
            model.graph.node.append(helper.make_node("Identity", ["cache.7.key"], [name]))
            dims = [each.dim_param or each.dim_value for each in edge.type.tensor_type.shape.dim]
            model.graph.output.append(helper.make_tensor_value_info(name, HALF, dims))

    assert checked(tmp_path, ambiguous) == []


@pytest.mark.rule("V54")
def test_a_cache_output_is_the_graph_output_of_its_cache(tmp_path: Path) -> None:
    def cross(model: ModelProto) -> None:
        node = last(model)
        node.output[1], node.output[2] = node.output[2], node.output[1]

    def other_layer(model: ModelProto) -> None:
        last(model).input[3] = "past_key_values.0.key"

    bound = "the graph output that is bound to the buffer of"
    assert checked(tmp_path, cross) == [
        (
            f"key_cache_out: expected present.1.key, {bound} past_key_values.1.key, "
            "got present.1.value (V54)"
        ),
        (
            f"value_cache_out: expected present.1.value, {bound} past_key_values.1.value, "
            "got present.1.key (V54)"
        ),
    ]
    assert checked(tmp_path, other_layer) == [
        (
            f"key_cache_out: expected present.0.key, {bound} past_key_values.0.key, "
            "got present.1.key (V54)"
        )
    ]
    assert checked(tmp_path, lambda _: None) == []


@pytest.mark.rule("V54")
def test_a_cache_is_an_input_of_the_graph(tmp_path: Path) -> None:
    def copied(model: ModelProto) -> None:
        insert(model, helper.make_node("Identity", ["past_key_values.1.key"], ["k"], name="copy"))
        last(model).input[3] = "k"

    def constant(model: ModelProto) -> None:
        model.graph.initializer.append(weight("past_key_values.1.value", (4, 16, 2, 16)))

    expected = "expected an input of the graph, so that its buffer can be updated in place"
    assert checked(tmp_path, copied) == [f"key_cache: {expected}, got computed by Identity (V54)"]
    assert checked(tmp_path, constant) == [f"value_cache: {expected}, got a constant (V54)"]


@pytest.mark.rule("V54")
def test_a_cache_output_is_an_output_of_the_graph(tmp_path: Path) -> None:
    def cast(model: ModelProto) -> None:
        last(model).output[1] = "raw"
        node = helper.make_node("Cast", ["raw"], ["present.1.key"], name="cast", to=HALF)
        model.graph.node.append(node)

    def dropped(model: ModelProto) -> None:
        names = [each.name for each in model.graph.output]
        del model.graph.output[names.index("present.1.key")]

    expected = "expected an output of the graph, so that it can be the buffer of"
    for change, name in ((cast, "raw"), (dropped, "present.1.key")):
        assert checked(tmp_path, change) == [
            f"key_cache_out: {expected} past_key_values.1.key, got {name}, which is none (V54)"
        ]


def test_names_that_say_nothing_are_not_compared(tmp_path: Path) -> None:
    def renamed(model: ModelProto) -> None:
        for value, name in zip(model.graph.output[1:], ("a", "b", "c", "d"), strict=True):
            value.name = name
        for node, names in zip(attention_nodes(model), (("a", "b"), ("c", "d")), strict=True):
            node.output[1], node.output[2] = names

    assert checked(tmp_path, renamed) == []


def test_a_cache_has_one_writer(tmp_path: Path) -> None:
    def shared(model: ModelProto) -> None:
        node = last(model)
        node.input[3], node.input[4] = "past_key_values.0.key", "past_key_values.0.value"
        del node.output[1:]
        del model.graph.output[3:]

    def twice(model: ModelProto) -> None:
        node = last(model)
        node.input[4] = "past_key_values.1.key"
        del node.output[1:]
        del model.graph.output[3:]

    owner = "expected a cache of its own; /layers.0/attn writes this one"
    assert checked(tmp_path, shared) == [
        f"key_cache: {owner}, got past_key_values.0.key (graph.cache_shared)",
        f"value_cache: {owner}, got past_key_values.0.value (graph.cache_shared)",
    ]
    assert checked(tmp_path, twice) == [
        (
            "value_cache: expected a cache of its own; key_cache writes this one, "
            "got past_key_values.1.key (graph.cache_shared)"
        )
    ]


def test_layers_that_store_the_same_rows_may_share_a_cache(tmp_path: Path) -> None:
    def shared(model: ModelProto) -> None:
        first, node = attention_nodes(model)
        node.input[:] = first.input
        del node.output[1:]
        del model.graph.output[3:]

    assert checked(tmp_path, shared) == []


def test_bounds_are_fed_by_the_host(tmp_path: Path) -> None:
    def computed(model: ModelProto) -> None:
        insert(model, helper.make_node("Identity", ["attention_metadata"], ["m"], name="copy"))
        last(model).input[16] = "m"

    def constant(model: ModelProto) -> None:
        model.graph.initializer.append(helper.make_tensor("m", 6, [3], [1, 64, 0]))
        last(model).input[16] = "m"

    name = "attention_metadata: expected an input of the graph, fed from host memory, got"
    assert checked(tmp_path, computed) == [
        f"{name} computed by Identity (graph.metadata_not_input)"
    ]
    assert checked(tmp_path, constant) == [f"{name} a constant (graph.metadata_not_input)"]


def test_absent_bounds_are_noted(tmp_path: Path) -> None:
    def without(model: ModelProto) -> None:
        del last(model).input[10:]

    assert checked(tmp_path, without) == [
        (
            "attention_metadata: expected an input of the graph; without it a backend may read "
            "lengths from the device, which stops CUDA-graph capture, got none (graph.no_metadata)"
        )
    ]


def branch(*nodes: NodeProto) -> NodeProto:
    """Return an If whose both bodies are those nodes."""
    results = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    body = helper.make_graph(list(nodes), "body", [], results)
    return helper.make_node(
        "If", ["condition"], ["chosen"], name="/if", then_branch=body, else_branch=body
    )


def test_control_flow_is_warned_of(tmp_path: Path) -> None:
    def empty(model: ModelProto) -> None:
        model.graph.input.append(helper.make_tensor_value_info("condition", 9, []))
        model.graph.node.append(branch(helper.make_node("Identity", ["n0"], ["y"])))

    assert checked(tmp_path, empty) == [
        (
            "If: expected no control flow; it stops CUDA-graph capture, got 1 of them "
            "(graph.control_flow)"
        )
    ]


def test_attention_inside_a_branch_is_checked_and_warned_of(tmp_path: Path) -> None:
    def inside(model: ModelProto) -> None:
        node = Node(outputs=("y",)).proto()
        node.input[0] = "qkv0"
        node.input[3], node.input[4] = "past_key_values.0.key", "past_key_values.0.value"
        node.attribute[0].CopyFrom(helper.make_attribute(node.attribute[0].name, 7))
        model.graph.input.append(helper.make_tensor_value_info("condition", 9, []))
        model.graph.node.append(branch(node))

    found = checked(tmp_path, inside)

    assert any(each.startswith("/if.then_branch > attn: do_rotary: ") for each in found)
    assert found[-1] == (
        "/if.then_branch > attn: PagedAttention: expected nodes of the main graph; "
        "control flow stops CUDA-graph capture, got inside a control-flow node "
        "(graph.attention_in_subgraph)"
    )


def test_lengths_that_depend_on_values_are_warned_of(tmp_path: Path) -> None:
    def added(model: ModelProto) -> None:
        model.graph.node.append(helper.make_node("NonZero", ["logits"], ["nonzero"]))

    assert checked(tmp_path, added) == [
        (
            "NonZero: expected no operator whose output's shape depends on values; it stops "
            "CUDA-graph capture, got 1 of them (graph.data_dependent_shape)"
        )
    ]


def test_packed_positions_are_noted(tmp_path: Path) -> None:
    def added(model: ModelProto) -> None:
        value = helper.make_tensor_value_info("position_ids", 7, [3, "num_tokens"])
        model.graph.input.append(value)

    assert checked(tmp_path, added) == [
        (
            "position_ids: expected no input position_ids; engines run such models without "
            "CUDA-graph capture, got an input (graph.position_ids)"
        )
    ]
