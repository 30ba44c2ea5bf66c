"""Goal: the operators that exporters write beside PagedAttention pass shapes on.

Method: one node each, with the inputs that decide its result.
"""

from __future__ import annotations

import pytest
from onnx import NodeProto, checker, defs, helper, shape_inference
from pa_spec.checker import register_schemas
from pa_spec.checker.graph.companion import companions
from paged_graphs import FLOAT, HALF, model_of


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register the schemas, as every test of this process may have done before."""
    register_schemas()


def test_every_companion_has_a_schema() -> None:
    for each in companions():
        schema = defs.get_schema(each.name, 1, each.domain)
        assert [slot.name for slot in schema.inputs] == [slot.name for slot in each.inputs]


@pytest.mark.parametrize(
    ("node", "fed", "expected"),
    [
        (
            helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], K=8, N=24, block_size=16),
            {"x": (HALF, ["t", 8]), "w": (2, [24, 1, 8]), "s": (HALF, [24])},
            (HALF, ["t", 24]),
        ),
        (
            helper.make_node("GatherBlockQuantized", ["w", "i", "s"], ["y"], bits=4),
            {"w": (2, [100, 32]), "i": (7, ["t"]), "s": (HALF, [100, 2])},
            (HALF, ["t", 64]),
        ),
        (
            helper.make_node("GatherBlockQuantized", ["w", "i", "s"], ["y"], bits=8),
            {"w": (2, [100, 64]), "i": (7, ["t"]), "s": (HALF, [100, 2])},
            (HALF, ["t", 64]),
        ),
        (
            helper.make_node("QuickGelu", ["x"], ["y"]),
            {"x": (HALF, ["t", 8])},
            (HALF, ["t", 8]),
        ),
        (
            helper.make_node(
                "GroupQueryAttention",
                ["x", "k", "v", "", "", "l", "n"],
                ["y"],
                num_heads=4,
                kv_num_heads=2,
            ),
            {
                "x": (HALF, ["b", "s", 64]),
                "k": (HALF, ["b", "s", 32]),
                "v": (HALF, ["b", "s", 32]),
                "l": (6, ["b"]),
                "n": (6, []),
            },
            (HALF, ["b", "s", 64]),
        ),
        (
            helper.make_node("GatedDeltaNet", ["x", "k", "v", "c", "d", "e", "state"], ["y"]),
            {
                "x": (HALF, ["t", 4, 16]),
                "k": (HALF, ["t", 4, 16]),
                "v": (HALF, ["t", 8, 32]),
                "c": (6, ["b + 1"]),
                "d": (FLOAT, ["t", 8]),
                "e": (FLOAT, ["t", 8]),
                "state": (FLOAT, ["b", 8, 32, 16]),
            },
            (HALF, ["t", 8, 32]),
        ),
        (
            helper.make_node("VarlenCausalConvWithState", ["x", "w", "c", "", "state"], ["y", "z"]),
            {
                "x": (HALF, ["t", 24]),
                "w": (HALF, [24, 1, 4]),
                "c": (6, ["b + 1"]),
                "state": (HALF, ["b", 24, 3]),
            },
            (HALF, ["t", 24]),
        ),
    ],
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_companions_pass_shapes_on(
    node: NodeProto,
    fed: dict[str, tuple[int, list[str | int]]],
    expected: tuple[int, list[object]],
) -> None:
    node.domain = "com.microsoft"
    values = [helper.make_tensor_value_info(name, *value) for name, value in fed.items()]
    result = helper.make_tensor_value_info("y", HALF, [None] * len(expected[1]))
    model = model_of(helper.make_graph([node], "one", values, [result]))

    checker.check_model(model)
    result = shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph.output[0]
    found = result.type.tensor_type
    shape = [dim.dim_param or dim.dim_value for dim in found.shape.dim]
    assert (found.elem_type, shape) == expected
