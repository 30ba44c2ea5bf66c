"""Goal: with our schemas the onnx library checks and infers exported models itself.

Method: a decoder as exporters write it, with and without declared shapes, and calls that break
a rule of inference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import ModelProto, TensorProto, checker, defs, helper, shape_inference
from pa_spec.checker import register_schemas
from pa_spec.contract import operator_attributes, operator_inputs, operator_outputs
from paged_graphs import (
    FLOAT,
    HALF,
    INT8,
    KV_HEADS,
    LATENT,
    Input,
    Node,
    attention_nodes,
    decoder,
    latent_inputs,
    packed_inputs,
    separate_inputs,
)


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register the schemas, as every test of this process may have done before."""
    register_schemas()


def inferred(
    model: ModelProto, *, strict: bool = True, check_type: bool = True
) -> dict[str, tuple[int, list[object]]]:
    """Return element type and shape of everything that the library infers or was told."""
    result = shape_inference.infer_shapes(model, check_type=check_type, strict_mode=strict)
    values = (*result.graph.value_info, *result.graph.output)
    return {
        value.name: (
            value.type.tensor_type.elem_type,
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in values
    }


def test_the_library_accepts_an_exported_model(tmp_path: Path) -> None:
    model = decoder()
    onnx.save(model, tmp_path / "model.onnx")

    checker.check_model(model)
    checker.check_model(tmp_path / "model.onnx", full_check=True)


def test_the_library_infers_every_attention_without_declared_shapes() -> None:
    model = decoder()
    del model.graph.value_info[:]

    for strict in (False, True):
        found = inferred(model, strict=strict)

        for layer in range(2):
            assert found[f"a{layer}"] == (HALF, ["num_tokens", 64])
        assert found["logits"] == (HALF, ["num_tokens", 100])


def test_registering_again_changes_nothing() -> None:
    before = defs.get_schema("PagedAttention", 1, "com.microsoft")

    assert register_schemas() == ()
    assert str(defs.get_schema("PagedAttention", 1, "com.microsoft")) == str(before)


def test_a_schema_of_somebody_else_stays() -> None:
    defs.deregister_schema("QuickGelu", 1, "com.microsoft")
    other = defs.OpSchema("QuickGelu", "com.microsoft", 1, "of somebody else")
    defs.register_schema(other)

    try:
        assert register_schemas() == ()
        assert defs.get_schema("QuickGelu", 1, "com.microsoft").doc == "of somebody else"
    finally:
        defs.deregister_schema("QuickGelu", 1, "com.microsoft")
    assert register_schemas() == ("com.microsoft::QuickGelu",)


def test_the_schema_is_the_contracts() -> None:
    schema = defs.get_schema("PagedAttention", 1, "com.microsoft")

    assert [each.name for each in schema.inputs] == [each.name for each in operator_inputs()]
    assert [each.name for each in schema.outputs] == [each.name for each in operator_outputs()]
    later = {"is_causal", "qk_rotation", "v_rotation"}
    assert set(schema.attributes) - later == {each.name for each in operator_attributes()}
    assert {name: schema.attributes[name].required for name in later} == dict.fromkeys(later, False)
    required = [name for name, each in schema.attributes.items() if each.required]
    assert sorted(required) == ["kv_num_heads", "num_heads"]


def test_cache_outputs_have_the_caches_types() -> None:
    inputs = packed_inputs()
    scales = {"k_scale": Input("k", FLOAT, (1,)), "v_scale": Input("v", FLOAT, (1,))}
    for name in ("key_cache", "value_cache"):
        inputs[name] = Input(inputs[name].name, INT8, inputs[name].shape)
    node = Node(inputs=inputs | scales)
    node.attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}

    found = inferred(node.model())

    assert found["attention"] == (HALF, ["num_tokens", 64])
    assert found["present.0.key"] == (INT8, ["num_blocks", "block_size", KV_HEADS, 16])


def test_latent_is_looked_at_before_packing() -> None:
    node = Node(inputs=latent_inputs(), attributes=dict(LATENT), outputs=("a", "present.0.key"))

    assert inferred(node.model())["a"] == (HALF, ["num_tokens", 128])


def test_scores_are_inferred_only_where_asked_for() -> None:
    inputs = packed_inputs()
    inputs["block_table"] = Input("block_table", TensorProto.INT32, ("batch_size", 8))
    for name in ("key_cache", "value_cache"):
        inputs[name] = Input(inputs[name].name, HALF, ("num_blocks", 32, 2, 16))
    del inputs["attention_metadata"]
    outputs = ("attention", "", "", "scores")
    node = Node(inputs=inputs, outputs=outputs, declared={"scores": (FLOAT, (None,) * 3)})
    node.attributes["qk_output"] = 1

    # The type of the scores is their declaration's alone: there is none to check it against.
    found = inferred(node.model(), check_type=False)

    assert found["scores"] == (FLOAT, [4, "num_tokens", 256])
    assert set(found) == {"attention", "scores"}


def test_constant_bounds_size_the_scores() -> None:
    inputs = packed_inputs()
    inputs["block_table"] = Input("block_table", TensorProto.INT32, ("batch_size", 8))
    for name in ("key_cache", "value_cache"):
        inputs[name] = Input(inputs[name].name, HALF, ("num_blocks", 32, 2, 16))
    outputs = ("attention", "", "", "scores")
    node = Node(inputs=inputs, outputs=outputs, declared={"scores": (FLOAT, (None,) * 3)})
    node.attributes["qk_output"] = 1
    model = node.model()
    bounds = helper.make_tensor("attention_metadata", TensorProto.INT32, [3], [4, 100, 0])
    model.graph.initializer.append(bounds)

    assert inferred(model, check_type=False)["scores"] == (FLOAT, [4, "num_tokens", 100])


@pytest.mark.parametrize(
    ("changes", "outputs", "message"),
    [
        (
            {"num_heads": 5},
            ("attention",),
            "kv_num_heads: expected a positive divisor of num_heads=5, got 2 (V2)",
        ),
        (
            {"num_heads": 8},
            ("attention",),
            (
                "query: expected a positive width divisible by num_heads + 2 * kv_num_heads = 12, "
                "got [num_tokens, 128] (V15)"
            ),
        ),
        (
            {},
            ("attention", "present.0.key"),
            (
                "outputs: expected 1, 3 or 4 entries, unused ones with an empty name, "
                "got 2 entries (V55)"
            ),
        ),
    ],
)
def test_broken_rules_are_the_librarys_errors(
    changes: dict[str, int], outputs: tuple[str, ...], message: str
) -> None:
    node = Node(outputs=outputs)
    node.attributes |= changes

    with pytest.raises(shape_inference.InferenceError) as caught:
        shape_inference.infer_shapes(node.model(), strict_mode=True)

    assert message in str(caught.value)


def test_the_library_refuses_what_the_schema_refuses() -> None:
    wrong_type = packed_inputs()
    wrong_type["past_seqlens"] = Input("past", TensorProto.INT64, ("batch_size",))
    unknown = decoder(1)
    attention_nodes(unknown)[0].attribute.append(helper.make_attribute("is_casual", 1))

    with pytest.raises(shape_inference.InferenceError):
        inferred(Node(inputs=wrong_type).model())
    with pytest.raises(checker.ValidationError, match="is_casual"):
        checker.check_model(unknown)


def test_attributes_of_a_later_revision_may_say_what_holds_here() -> None:
    neutral, other = decoder(1), decoder(1)
    values = {"is_causal": 1, "qk_rotation": "NONE", "v_rotation": "NONE"}
    attributes = [helper.make_attribute(name, value) for name, value in values.items()]
    attention_nodes(neutral)[0].attribute.extend(attributes)
    attention_nodes(other)[0].attribute.append(helper.make_attribute("is_causal", 0))

    checker.check_model(neutral, full_check=True)
    with pytest.raises(shape_inference.InferenceError, match="is_causal: expected 1 in this"):
        checker.check_model(other, full_check=True)


@pytest.mark.parametrize("value", [[4], "4", helper.make_tensor("x", TensorProto.INT64, [], [4])])
def test_an_attribute_of_another_type_leaves_outputs_unknown(value: Any) -> None:
    model = decoder(1)
    node = attention_nodes(model)[0]
    node.attribute.remove(next(each for each in node.attribute if each.name == "num_heads"))
    node.attribute.append(helper.make_attribute("num_heads", value))

    with pytest.raises(shape_inference.InferenceError, match="num_heads: expected an attribute"):
        shape_inference.infer_shapes(model)


def test_a_width_beyond_64_bits_stays_unknown() -> None:
    inputs = separate_inputs()
    inputs["query"] = Input("query", HALF, None)
    node = Node(inputs=inputs, attributes={"num_heads": 2**62, "kv_num_heads": 2})

    assert inferred(node.model())["attention"] == (HALF, ["unk__0", "unk__1"])


def test_an_unknown_input_leaves_outputs_unknown() -> None:
    model = decoder(1)
    del model.graph.value_info[:]
    attention_nodes(model)[0].input[0] = "anything"
    model.graph.input.append(helper.make_tensor_value_info("anything", HALF, None))

    found = inferred(model, strict=False)

    # The width follows from the heads and the cache, the number of tokens does not.
    element, (tokens, width) = found["a0"]
    assert (element, width) == (HALF, 64)
    assert not isinstance(tokens, int)
