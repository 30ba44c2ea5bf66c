"""Goal: a node that cannot be computed is one finding at that node, and right ones are none.

Method: one weight or attribute of a decoder is changed; all declared shapes stay right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from pa_spec.checker.graph import refusal
from paged_graphs import HALF, HIDDEN, PACKED, check_model_proto, decoder, model_of, weight

EXPECTED = "expected inputs that the operator takes, got"


def node(model: ModelProto, name: str) -> NodeProto:
    """Return the node with that name."""
    found: NodeProto = next(each for each in model.graph.node if each.name == name)
    return found


def give(model: ModelProto, name: str, index: int, stored: TensorProto) -> None:
    """Give one node a weight of its own."""
    model.graph.initializer.append(stored)
    node(model, name).input[index] = stored.name


def turned(model: ModelProto) -> None:
    give(model, "/0/qkv", 1, weight("turned", (PACKED, HIDDEN)))


def other_type(model: ModelProto) -> None:
    stored = weight("other", (HIDDEN, PACKED))
    stored.data_type = TensorProto.BFLOAT16
    give(model, "/0/qkv", 1, stored)


def integers(model: ModelProto) -> None:
    stored = weight("integers", (HIDDEN, PACKED))
    stored.data_type = TensorProto.INT16
    give(model, "/1/qkv", 1, stored)


def narrow_norm(model: ModelProto) -> None:
    give(model, "/norm", 1, weight("narrow", (HIDDEN - 1,)))


def narrow_skip_norm(model: ModelProto) -> None:
    give(model, "/0/norm", 2, weight("narrow", (HIDDEN - 1,)))


def third_input(model: ModelProto) -> None:
    node(model, "/head").input.append("head")


def unknown_attribute(model: ModelProto) -> None:
    node(model, "/embed").attribute.append(helper.make_attribute("axes", 0))


WRONG: dict[str, tuple[Callable[[ModelProto], None], str]] = {
    "a turned weight": (
        turned,
        (
            f"/0/qkv: MatMul: {EXPECTED} float16 [num_tokens, 64], float16 [128, 64] "
            "(Incompatible dimensions for matrix multiplication)"
        ),
    ),
    "another type": (
        other_type,
        (
            f"/0/qkv: MatMul: {EXPECTED} float16 [num_tokens, 64], bfloat16 [64, 128] "
            "(B has inconsistent type tensor(bfloat16))"
        ),
    ),
    "integers": (
        integers,
        (
            f"/1/qkv: MatMul: {EXPECTED} float16 [num_tokens, 64], int16 [64, 128] "
            "(B typestr: T, has unsupported type: tensor(int16))"
        ),
    ),
    "a narrow norm": (
        narrow_norm,
        (
            f"/norm: SimplifiedLayerNormalization: {EXPECTED} float16 [num_tokens, 64], "
            "float16 [63] (scale is 63 wide, the input 64)"
        ),
    ),
    "a narrow norm after a sum": (
        narrow_skip_norm,
        (
            f"/0/norm: SkipSimplifiedLayerNormalization: {EXPECTED} float16 [num_tokens, 64], "
            "float16 [num_tokens, 64], float16 [63] (gamma is 63 wide, the input 64)"
        ),
    ),
}


@pytest.mark.parametrize(("change", "expected"), WRONG.values(), ids=WRONG.keys())
def test_a_node_that_cannot_be_computed_is_one_finding(
    change: Callable[[ModelProto], None], expected: str, tmp_path: Path
) -> None:
    model = decoder()
    change(model)

    found = check_model_proto(model, tmp_path)

    assert list(map(str, found)) == [f"model.onnx: {expected} (graph.node_refused)"]


@pytest.mark.parametrize("change", [third_input, unknown_attribute])
def test_what_an_operator_has_not_is_one_finding(
    change: Callable[[ModelProto], None], tmp_path: Path
) -> None:
    model = decoder()
    change(model)

    assert [each.id for each in check_model_proto(model, tmp_path)] == ["graph.node_refused"]


def test_one_symbol_cannot_be_two_lengths(tmp_path: Path) -> None:
    model = decoder()
    node(model, "/embed").attribute.append(helper.make_attribute("axis", 1))

    found = check_model_proto(model, tmp_path)

    assert list(map(str, found)) == [
        (
            "model.onnx: /embed: x0: expected float16 [100, num_tokens], as the graph computes it, "
            "got float16 [num_tokens, 64] (graph.shape_contradicts)"
        )
    ]


def test_a_tensor_that_was_reported_is_not_reported_at_its_node(tmp_path: Path) -> None:
    model = decoder()
    stored = weight("short", (HIDDEN,))
    stored.dims[0] = HIDDEN - 1
    give(model, "/norm", 1, stored)

    assert [each.id for each in check_model_proto(model, tmp_path)] == ["graph.tensor_size"]


def test_a_quantized_matrix_of_another_width_is_refused(tmp_path: Path) -> None:
    quantized = helper.make_tensor(
        "q", TensorProto.UINT8, (PACKED, 2, 16), bytes(PACKED * 32), True
    )
    for width, expected in ((HIDDEN, []), (HIDDEN * 2, ["graph.node_refused"])):
        model = decoder(1)
        model.graph.initializer.extend((quantized, weight("scales", (PACKED, 2))))
        replaced = helper.make_node(
            "MatMulNBits", ["n0", "q", "scales"], ["qkv0"], domain="com.microsoft",
            K=width, N=PACKED, bits=4, block_size=32,
        )  # fmt: skip
        node(model, "/0/qkv").CopyFrom(replaced)

        assert [each.id for each in check_model_proto(model, tmp_path)] == expected


def test_a_constant_that_is_declared_as_a_scalar_is_right(tmp_path: Path) -> None:
    model = decoder(1)
    target = helper.make_tensor("value", TensorProto.INT64, [2], [-1, HIDDEN])
    nodes = [
        helper.make_node("Constant", [], ["target"], value=target),
        helper.make_node("Reshape", ["embedding", "target"], ["again"]),
    ]
    for each in reversed(nodes):
        model.graph.node.insert(0, each)
    model.graph.value_info.append(helper.make_tensor_value_info("target", TensorProto.INT64, []))

    assert check_model_proto(model, tmp_path) == ()


def test_a_target_that_holds_other_elements_is_refused(tmp_path: Path) -> None:
    model = decoder(1)
    model.graph.initializer.append(helper.make_tensor("target", TensorProto.INT64, [2], [-1, 63]))
    reshape = helper.make_node("Reshape", ["embedding", "target"], ["again"], name="/again")
    model.graph.node.insert(0, reshape)

    found = check_model_proto(model, tmp_path)

    assert [(each.id, each.place.inside) for each in found] == [("graph.node_refused", "/again")]


def test_what_prepares_padded_rows_is_not_reported_apart(tmp_path: Path) -> None:
    fed = [helper.make_tensor_value_info("x", HALF, ["num_tokens", HIDDEN])]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["t", "t"], ["m"]),
        helper.make_node("CausalConvWithState", ["m", "w"], ["y", "s"], domain="com.microsoft"),
    ]
    graph = helper.make_graph(nodes, "conv", fed, [], [weight("w", (HIDDEN, 1, 3))])

    found = check_model_proto(model_of(graph), tmp_path)

    assert [each.id for each in found] == ["graph.no_attention"]


def test_alike_nodes_are_asked_about_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []
    library_reason = refusal._library_reason

    def counted(question: refusal._Question) -> str:
        asked.append(question)
        return library_reason(question)

    monkeypatch.setattr(refusal, "_library_reason", counted)

    for layers in (1, 20):
        asked.clear()
        assert check_model_proto(decoder(layers), tmp_path) == ()
        # Gather, two normalizations, and the three kinds of MatMul.
        assert len(asked) == 6


def test_only_so_many_unlike_nodes_are_asked_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = decoder()
    turned(model)
    monkeypatch.setattr(refusal, "MAX_QUESTIONS", 2)

    assert check_model_proto(model, tmp_path) == ()
