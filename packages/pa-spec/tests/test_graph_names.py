"""Goal: names, order, declared shapes and imports of a graph agree, or a finding says where not.

Method: a decoder of two layers with one thing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper
from paged_graphs import (
    HALF,
    HIDDEN,
    PACKED,
    Node,
    attention_nodes,
    check_model_proto,
    decoder,
    model_of,
    weight,
)


def checked(folder: Path, change: Callable[[ModelProto], None]) -> list[str]:
    """Check a decoder after a change, without "model.onnx: "."""
    model = decoder()
    change(model)
    found = map(str, check_model_proto(model, folder))
    return [each.removeprefix("model.onnx: ") for each in found]


def node_named(model: ModelProto, name: str) -> NodeProto:
    """Return a node by its name."""
    found: NodeProto = next(node for node in model.graph.node if node.name == name)
    return found


def test_names_are_defined_once(tmp_path: Path) -> None:
    def output(model: ModelProto) -> None:
        node_named(model, "/0/out").output[0] = "qkv0"
        node_named(model, "/0/norm").input[1] = "qkv0"

    def initializer(model: ModelProto) -> None:
        model.graph.initializer.append(weight("qkv", (HIDDEN, PACKED)))

    def fed(model: ModelProto) -> None:
        model.graph.input.append(model.graph.input[0])

    def result(model: ModelProto) -> None:
        model.graph.output.append(model.graph.output[0])

    for change, name in (
        (output, "qkv0"),
        (initializer, "qkv"),
        (fed, "input_ids"),
        (result, "logits"),
    ):
        expected = f"{name}: {name}: expected a name that is given once, got given again"
        assert checked(tmp_path, change) == [f"{expected} (graph.duplicate_name)"]


def test_names_of_a_body_are_not_those_around_it(tmp_path: Path) -> None:
    def body(*names: str) -> GraphProto:
        nodes = [helper.make_node("Identity", ["n0"], [name]) for name in names]
        return helper.make_graph(
            nodes, "body", [], [helper.make_empty_tensor_value_info(names[-1])]
        )

    def added(first: GraphProto, second: GraphProto) -> Callable[[ModelProto], None]:
        def change(model: ModelProto) -> None:
            model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
            node = helper.make_node(
                "If", ["c"], ["chosen"], name="if", then_branch=first, else_branch=second
            )
            model.graph.node.append(node)

        return change

    flow = "If: expected no control flow; it stops CUDA-graph capture, got 1 of them"
    assert checked(tmp_path, added(body("y"), body("y"))) == [f"{flow} (graph.control_flow)"]
    assert checked(tmp_path, added(body("y"), body("n1", "z"))) == [
        (
            "if.else_branch > n1: n1: expected a name that is given once, got given again "
            "(graph.duplicate_name)"
        ),
        f"{flow} (graph.control_flow)",
    ]


def test_names_are_defined(tmp_path: Path) -> None:
    def used(model: ModelProto) -> None:
        node_named(model, "/1/qkv").input[1] = "absent"

    def result(model: ModelProto) -> None:
        model.graph.output.add(name="absent")

    expected = "absent: expected the name of an input, an initializer or a node's output"
    assert checked(tmp_path, used) == [f"/1/qkv: {expected}, got undefined (graph.undefined_name)"]
    assert checked(tmp_path, result) == [
        f"absent: {expected}, got undefined (graph.undefined_name)"
    ]


def test_nodes_come_after_what_they_use(tmp_path: Path) -> None:
    def exchanged(model: ModelProto) -> None:
        nodes = [NodeProto.FromString(each.SerializeToString()) for each in model.graph.node]
        nodes[2], nodes[3] = nodes[3], nodes[2]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    def circle(model: ModelProto) -> None:
        node_named(model, "/0/qkv").input[0] = "n2"

    def itself(model: ModelProto) -> None:
        node_named(model, "/0/qkv").input[0] = "qkv0"

    expected = "expected nodes in an order in which each comes after those it uses"
    for change, place, name in (
        (exchanged, "/layers.0/attn", "qkv0"),
        (circle, "/0/qkv", "n2"),
        (itself, "/0/qkv", "qkv0"),
    ):
        assert checked(tmp_path, change) == [
            f"{place}: {name}: {expected}, got used before it is computed (graph.not_sorted)"
        ]


def test_a_wrong_declaration_is_said_once(tmp_path: Path) -> None:
    def declare(name: str, width: int, element: int = HALF) -> Callable[[ModelProto], None]:
        def change(model: ModelProto) -> None:
            (value,) = (each for each in model.graph.value_info if each.name == name)
            value.type.tensor_type.elem_type = element
            value.type.tensor_type.shape.dim[1].dim_value = width

        return change

    def widened(model: ModelProto) -> None:
        weights = {each.name: each for each in model.graph.initializer}
        weights["embedding"].CopyFrom(weight("embedding", (100, 72)))

    computed = "as the graph computes it"
    assert checked(tmp_path, declare("qkv0", 132)) == [
        (
            f"/0/qkv: qkv0: expected float16 [num_tokens, 128], {computed}, "
            "got float16 [num_tokens, 132] (graph.shape_contradicts)"
        )
    ]
    assert checked(tmp_path, declare("o1", 64, TensorProto.FLOAT)) == [
        (
            f"/1/out: o1: expected float16 [num_tokens, 64], {computed}, "
            "got float32 [num_tokens, 64] (graph.shape_contradicts)"
        )
    ]
    assert checked(tmp_path, widened) == [
        (
            f"/embed: x0: expected float16 [num_tokens, 72], {computed}, "
            "got float16 [num_tokens, 64] (graph.shape_contradicts)"
        )
    ]
    assert checked(tmp_path, declare("qkv0", 128)) == []


def test_what_cannot_be_inferred_is_as_declared(tmp_path: Path) -> None:
    def foreign(model: ModelProto) -> None:
        node = node_named(model, "/0/qkv")
        node.op_type, node.domain = "Custom", "com.example"
        model.opset_import.append(helper.make_opsetid("com.example", 3))

    assert checked(tmp_path, foreign) == []


def test_a_model_without_the_operator_says_what_it_has(tmp_path: Path) -> None:
    def dense(model: ModelProto) -> None:
        for node in attention_nodes(model):
            node.op_type = "GroupQueryAttention"

    expected = (
        "PagedAttention: expected nodes com.microsoft::PagedAttention; "
        "the model builder's option is use_paged_attention=true, got"
    )
    assert checked(tmp_path, dense) == [f"{expected} 2 GroupQueryAttention (graph.no_attention)"]
    (found,) = check_model_proto(model_of(GraphProto(name="empty")), tmp_path)
    assert str(found) == f"model.onnx: {expected} none (graph.no_attention)"


def test_the_operators_domain_is_imported(tmp_path: Path) -> None:
    def dropped(model: ModelProto) -> None:
        del model.opset_import[1]

    def newer(model: ModelProto) -> None:
        model.opset_import[1].version = 2

    def moved(model: ModelProto) -> None:
        attention_nodes(model)[0].domain = ""

    def unknown(model: ModelProto) -> None:
        node = helper.make_node("F", ["logits"], ["f"], domain="com.example")
        model.graph.node.append(node)

    expected = "com.microsoft: expected version 1 in opset_import, got"
    assert checked(tmp_path, dropped) == [f"{expected} not imported (graph.opset)"]
    assert checked(tmp_path, newer) == [f"{expected} version 2 (graph.opset)"]
    assert checked(tmp_path, moved) == [
        (
            "/layers.0/attn: PagedAttention: expected com.microsoft, got ONNX's own domain "
            "(graph.wrong_domain)"
        )
    ]
    assert checked(tmp_path, unknown) == [
        "com.example: expected a version in opset_import, got not imported (graph.opset)"
    ]


def test_attention_inside_a_function_is_warned_of(tmp_path: Path) -> None:
    def function(model: ModelProto) -> None:
        opsets = [helper.make_opsetid("com.microsoft", 1)]
        nodes = [Node(outputs=("y",)).proto()]
        model.functions.append(helper.make_function("local", "F", ["x"], ["y"], nodes, opsets))

    assert checked(tmp_path, function) == [
        (
            "F > attn: PagedAttention: expected nodes of the main graph (inline the model's "
            "functions), got in a function (graph.attention_in_function)"
        )
    ]


def test_a_constant_that_is_declared_as_a_scalar_is_the_builders_habit(tmp_path: Path) -> None:
    def shaped(model: ModelProto) -> None:
        node = helper.make_node(
            "Constant", [], ["shape"], value=helper.make_tensor("shape", 7, [2], [0, -1])
        )
        model.graph.node.insert(0, node)
        reshape = helper.make_node("Reshape", ["logits", "shape"], ["flat"])
        model.graph.node.append(reshape)
        model.graph.value_info.append(helper.make_tensor_value_info("shape", 7, []))

    assert checked(tmp_path, shaped) == []


def test_sparse_initializers_define_names(tmp_path: Path) -> None:
    def sparse(model: ModelProto) -> None:
        values = helper.make_tensor("thin", TensorProto.FLOAT, [1], [1.0])
        indices = helper.make_tensor("thin_indices", 7, [1], [3])
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))
        model.graph.node.append(helper.make_node("Identity", ["thin"], ["copy"]))

    assert checked(tmp_path, sparse) == []
