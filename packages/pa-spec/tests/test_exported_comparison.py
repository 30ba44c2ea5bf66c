"""An exported graph against what the model's own configuration means."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from exported_model import (
    INT64,
    PAST,
    STEP,
    configured,
    found_in,
    graph,
    ids_in,
    node,
    tensor,
)
from pa_spec import ElementType, GroupKind
from pa_spec.checker import FixedRow, LayerKind, LayerMeaning, ModelMeaning, RopeMeaning
from pa_spec.checker.exported.reference import Reference
from pa_spec.checker.graph.graph import Graph, GraphNode, GraphTensor

LAYER = LayerMeaning(
    LayerKind.ATTENTION, 4, 2, 32, 32, rope=0, scale=1 / sqrt(32), has_qk_norm=True
)
ROPE = RopeMeaning("default", 10000.0, 32, 1024, 1024)
MEANING = ModelMeaning(
    model_type="llama",
    architecture="LlamaForCausalLM",
    family="llama",
    vocab_size=512,
    hidden_size=128,
    context_tokens=1024,
    layers=(LAYER, LAYER),
    ropes=(ROPE,),
    has_tied_embeddings=True,
    element_type=ElementType.FLOAT16,
    cache_element_type=ElementType.FLOAT16,
    manifest=None,
)
NODE = "model.onnx: /model/layers.{}/attn/PagedAttention: "


def compared(model: Graph, *layers: LayerMeaning, **other: Any) -> list[str]:
    meaning = replace(MEANING, layers=layers or MEANING.layers, **other)
    return found_in(configured(), model, Reference(Path("nowhere"), meaning))


def nodes(**attributes: Any) -> Graph:
    """Return the graph whose second node has other attributes."""
    inputs = {**STEP, **PAST}
    return graph(nodes=[node(0, inputs), node(1, inputs, **attributes)])


def with_input(index: int) -> Graph:
    """Return the graph whose second node has one more input."""
    inputs = {**STEP, **PAST}
    second = node(1, inputs)
    absent = [None] * (index - len(second.inputs))
    more = (*second.inputs, *absent, second.inputs[0])
    changed = GraphNode(
        second.place, second.op_type, second.domain, second.attributes, more, second.outputs
    )
    return graph(nodes=[node(0, inputs), changed])


def test_a_graph_that_is_as_its_model_passes() -> None:
    assert compared(graph()) == []


def test_a_window_that_the_export_lost_is_reported_once_for_all_layers() -> None:
    windowed = replace(LAYER, window=64)

    assert compared(graph(), windowed, windowed) == [
        NODE.format(0) + "local_window_size: expected 64, as config.json means, got -1 in layers "
        "0, 1 (exported.window_differs)"
    ]
    assert compared(nodes(local_window_size=64), LAYER, windowed) == []


@pytest.mark.parametrize(("meant", "exported"), [(1024, -1), (4096, -1), (-1, 1024), (2048, 4096)])
def test_a_window_as_long_as_the_context_hides_nothing(meant: int, exported: int) -> None:
    layers = (LAYER, replace(LAYER, window=meant))

    assert compared(nodes(local_window_size=exported), *layers) == []


def test_chunks_are_no_window() -> None:
    chunked = replace(LAYER, chunk_tokens=128)

    assert compared(nodes(local_window_size=128), LAYER, chunked) == [
        NODE.format(1) + "local_window_size: expected chunks of 128, as config.json means, got 128 "
        "in layer 1 (exported.window_differs)"
    ]


def test_the_scale_is_the_models_or_the_default_of_its_width() -> None:
    assert compared(nodes(scale=0.0)) == []
    assert compared(nodes(scale=0.17677)) == []
    assert compared(nodes(scale=0.125)) == [
        NODE.format(1) + "scale: expected 0.176777, as config.json means, got 0.125 in layer 1 "
        "(exported.scale_differs)"
    ]


def test_the_softcap_is_the_models() -> None:
    capped = replace(LAYER, softcap=50.0)

    assert compared(nodes(softcap=50.0), LAYER, capped) == []
    assert compared(nodes(), LAYER, capped) == [
        NODE.format(1) + "softcap: expected 50, as config.json means, got 0 in layer 1 "
        "(exported.softcap_differs)"
    ]


def test_heads_are_the_models() -> None:
    assert compared(nodes(num_heads=2)) == [
        NODE.format(1) + "num_heads: expected 4 heads, 2 KV heads of width 32, as config.json "
        "means, got 2 heads, 2 KV heads of width 32 in layer 1 (exported.heads_differ)"
    ]


def test_a_sink_is_the_models() -> None:
    assert compared(with_input(11), LAYER, replace(LAYER, has_sink=True)) == []
    assert ids_in(compared(with_input(11))) == ["exported.sink_differs"]
    assert ids_in(compared(graph(), LAYER, replace(LAYER, has_sink=True))) == [
        "exported.sink_differs"
    ]


def test_rotated_channels_are_the_models() -> None:
    half = replace(ROPE, rotary_dim=16)

    assert compared(graph(), ropes=(half,)) == [
        NODE.format(0) + "cos_cache: expected 8 columns, as config.json means, got 16 columns in "
        "layers 0, 1 (exported.rotary_differs)"
    ]
    assert ids_in(compared(graph(), replace(LAYER, rope=None), LAYER)) == [
        "exported.rotary_differs"
    ]


def test_a_node_rotates_unless_other_operators_may() -> None:
    expected = [
        NODE.format(1) + "do_rotary: expected 1, as config.json means, got 0 in layer 1 "
        "(exported.rotary_differs)"
    ]
    positions = tensor("position_ids", INT64, "num_tokens")
    still = nodes(do_rotary=0)

    assert compared(still, ropes=(ROPE,)) == expected
    assert compared(replace(still, operators={("", "MatMul"): 9}), ropes=(ROPE,)) == expected
    for domain, name in (("com.microsoft", "RotaryEmbedding"), ("", "Cos")):
        rotated = replace(still, operators={(domain, name): 2})
        assert compared(rotated, ropes=(ROPE,)) == []
    assert compared(replace(still, functions=1), ropes=(ROPE,)) == []
    fed = replace(still, inputs={**still.inputs, "position_ids": positions})
    assert compared(fed, ropes=(ROPE,)) == []


def test_channels_are_rotated_in_the_models_pairs() -> None:
    neighbours = replace(ROPE, interleaved=True)

    assert compared(nodes(rotary_interleaved=1), ropes=(ROPE,)) == [
        NODE.format(1) + "rotary_interleaved: expected 0, as config.json means, got 1 in layer 1 "
        "(exported.rotary_differs)"
    ]
    assert compared(graph(), ropes=(neighbours,)) == [
        NODE.format(0) + "rotary_interleaved: expected 1, as config.json means, got 0 in "
        "layers 0, 1 (exported.rotary_differs)"
    ]


def test_layers_without_attention_and_surplus_layers_are_not_compared() -> None:
    conv = LayerMeaning(LayerKind.CONV)

    assert compared(graph(), conv, LAYER) == []
    assert compared(graph(), LAYER) == []


CONV = "past_key_values.1.conv_state"
RECURRENT = "past_key_values.1.recurrent_state"


def hybrid(name: str, kind: str, element_type: ElementType, *rows: int) -> list[str]:
    """Compare a graph whose layer 1 keeps fixed state with a model whose layer 1 does."""
    groups = [{"kind": "paged_kv", "layer_ids": [0]}, {"kind": kind, "layer_ids": [1]}]
    past = tensor(name, element_type, "batch_size", *rows)
    present = tensor(name.replace("past_key_values", "present"), *_type_and_shape(past))
    caches = [f"{edge}.1.{side}" for edge in ("past_key_values", "present") for side in SIDES]
    model = graph(past, outputs=[present], without=caches, nodes=[node(0, {**STEP, **PAST})])
    fixed = (
        FixedRow(GroupKind.FIXED_CONV, (64, 3), ElementType.FLOAT16),
        FixedRow(GroupKind.FIXED_RECURRENT, (4, 16, 8), ElementType.FLOAT32),
    )
    linear = LayerMeaning(LayerKind.LINEAR_ATTENTION, fixed=fixed)
    meaning = replace(MEANING, layers=(LAYER, linear))
    document = configured({"model.decoder.state_groups": groups})
    return found_in(document, model, Reference(Path("nowhere"), meaning))


SIDES = ("key", "value")


def _type_and_shape(found: GraphTensor) -> tuple[Any, ...]:
    return (found.tensor.element_type, *(found.tensor.shape or ()))


def test_fixed_rows_are_the_models() -> None:
    half, full = ElementType.FLOAT16, ElementType.FLOAT32

    assert hybrid(CONV, "fixed_conv", half, 64, 3) == []
    assert hybrid(CONV, "fixed_conv", full, 64, 4) == []
    assert hybrid(RECURRENT, "fixed_recurrent", full, 4, 16, 8) == []
    assert hybrid(CONV, "fixed_conv", half, 3, 64) == [
        (
            f"model.decoder.state_groups: {CONV}: expected rows [64, 3], as config.json means, got "
            "float16 [batch_size, 3, 64] (exported.state_differs)"
        )
    ]
    assert hybrid(RECURRENT, "fixed_recurrent", full, 4, 8, 16) == [
        (
            f"model.decoder.state_groups: {RECURRENT}: expected float32 rows [4, 16, 8], as "
            "config.json means, got float32 [batch_size, 4, 8, 16] (exported.state_differs)"
        )
    ]
    assert ids_in(hybrid(RECURRENT, "fixed_recurrent", half, 4, 16, 8)) == [
        "exported.state_differs"
    ]
