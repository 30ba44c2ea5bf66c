"""Goal: one mistake in a node is one finding, in the file's own words.

Method: a node whose inputs all come from outside, with one thing changed; caches and types are
in test_graph_node_cache.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_changes import PER_CHANNEL, THREE, Change, both, quantized
from paged_graphs import (
    CACHE,
    FLOAT,
    HALF,
    INT32,
    Input,
    Node,
    check_model_proto,
    latent_inputs,
    packed_inputs,
    separate_inputs,
)

RIGHT = {
    "packed": Change(),
    "separate": Change(separate_inputs),
    "latent": Change(latent_inputs),
    "without cache outputs": Change(outputs=("attention",)),
    "with empty cache outputs": Change(outputs=("attention", "", "")),
    "static lengths": Change(
        inputs={
            "query": (7, 128),
            "cumulative_sequence_length": (4,),
            "past_seqlens": (3,),
            "block_table": (3, 8),
            **both((10, 32, 2, 16)),
        }
    ),
    "other symbols": Change(
        inputs={
            "query": ("a", 128),
            "cumulative_sequence_length": ("b",),
            "past_seqlens": ("c",),
            "block_table": ("d", "e"),
            "key_cache": ("f", "g", 2, 16),
            "value_cache": ("h", "i", 2, 16),
        }
    ),
    "boundaries named as rows": Change(inputs={"cumulative_sequence_length": ("batch_size",)}),
    "one token a row": Change(
        separate_inputs,
        inputs={
            "query": ("batch_size", 64),
            "key": ("batch_size", 32),
            "value": ("batch_size", 32),
            "slot_mapping": Input("slots", INT32, ("tokens",)),
        },
    ),
    "one symbol for blocks and columns": Change(inputs={"block_table": ("b", "num_blocks")}),
    "no extents": Change(
        inputs={"block_table": (None, None), "past_seqlens": (None,), "query": (None, 128)}
    ),
    "int8": Change(attributes=PER_CHANNEL, inputs=quantized()),
    "int8, one scale": Change(
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_CHANNEL"},
        inputs=quantized(k_scale=Input("k_scale", FLOAT, (1,))),
    ),
    "norms": Change(
        inputs={
            "q_norm_weight": Input("q_norm", HALF, (16,)),
            "k_norm_weight": Input("k_norm", HALF, (16,)),
            "head_sink": Input("sink", HALF, (4,)),
        }
    ),
    "bias": Change(inputs={"attention_bias": Input("bias", HALF, ("batch_size", 1, "q", "c"))}),
    "scores": Change(attributes={"qk_output": 1}, outputs=(*THREE, "scores")),
    "two bounds": Change(inputs={"attention_metadata": (2,)}),
    "causal": Change(attributes={"is_causal": 1}),
}


# What differs, and all that is reported, without "model.onnx: attn: ".
WRONG: dict[str, tuple[Change, list[str]]] = {
    "no num_heads": (
        Change(attributes={"num_heads": None}),
        ["num_heads: expected a positive integer, got none (V1)"],
    ),
    "no kv_num_heads": (
        Change(attributes={"kv_num_heads": None}),
        ["kv_num_heads: expected a positive divisor of num_heads=4, got none (V2)"],
    ),
    "three heads over two": (
        Change(attributes={"num_heads": 3}),
        ["kv_num_heads: expected a positive divisor of num_heads=3, got 2 (V2)"],
    ),
    "other heads, packed": (
        Change(attributes={"num_heads": 8}),
        [
            (
                "query: expected a positive width divisible by num_heads + 2 * kv_num_heads = 12, "
                "got [num_tokens, 128] (V15)"
            )
        ],
    ),
    "other heads, separate": (
        Change(separate_inputs, {"num_heads": 2}),
        ["key: expected a width of kv_num_heads=2 * head_size=32 = 64, got [num_tokens, 32] (V13)"],
    ),
    "boundaries for other rows": (
        Change(
            inputs={
                "cumulative_sequence_length": (4,),
                "past_seqlens": (4,),
                "block_table": (4, 8),
            }
        ),
        ["past_seqlens: expected [B=3], got [4] (V33)"],
    ),
    "boundaries and rows exchanged": (
        Change(
            inputs={
                "cumulative_sequence_length": Input("past", INT32, ("batch_size",)),
                "past_seqlens": Input("cumulative", INT32, ("batch_size + 1",)),
            }
        ),
        ["past_seqlens: expected [B], got [batch_size + 1] (V33)"],
    ),
    "a flat table": (
        Change(inputs={"block_table": ("batch_size",)}),
        ["block_table: expected [B, M], got [batch_size] (V34)"],
    ),
    "a query without axes": (
        Change(inputs={"query": ()}),
        ["query: expected [T, width], got [] (V9)"],
    ),
    "a table without axes": (
        Change(inputs={"block_table": ()}),
        ["block_table: expected [B, M], got [] (V34)"],
    ),
    "lone sines": (
        Change(inputs={"cos_cache": None}),
        [
            (
                "cos_cache: expected cos_cache and sin_cache both present, or both absent, "
                "got none (V39)"
            )
        ],
    ),
    "no tables": (
        Change(inputs={"cos_cache": None, "sin_cache": None}),
        ["cos_cache: expected present (as sin_cache), because do_rotary is 1, got none (V41)"],
    ),
    "four bounds": (
        Change(inputs={"attention_metadata": (4,)}),
        ["attention_metadata: expected [2] or [3], got [4] (V51)"],
    ),
    "no past lengths": (
        Change(inputs={"past_seqlens": None}),
        ["past_seqlens: expected an input, got none (graph.missing_input)"],
    ),
    "two outputs": (
        Change(outputs=THREE[:2]),
        [
            (
                "outputs: expected 1, 3 or 4 entries, unused ones with an empty name, "
                "got 2 entries (V55)"
            )
        ],
    ),
    "latent layout forgotten": (
        Change(latent_inputs, {"kv_cache_layout": None}),
        [
            (
                "value: expected key and value both present, or both absent (packed into query), "
                "got none (V11)"
            )
        ],
    ),
    "scores unasked": (
        Change(outputs=(*THREE, "scores")),
        [
            (
                "output_qk: expected an output exactly when qk_output is not 0, "
                "got float16 with qk_output=0 (V69)"
            )
        ],
    ),
    "attention in both directions": (
        Change(attributes={"is_causal": 0}),
        [
            (
                "is_causal: expected no such attribute in this revision of the operator, "
                "got 0 (graph.unknown_attribute)"
            )
        ],
    ),
    "heads as a float": (
        Change(attributes={"num_heads": 4.0}),
        ["num_heads: expected an attribute of type int, got 4.0 (float) (graph.attribute_type)"],
    ),
    "unknown width": (
        Change(inputs={"query": ("num_tokens", "hidden")}),
        [
            (
                "inputs: expected shapes that are declared or follow from the graph, "
                "got unknown: query (graph.shape_unknown)"
            )
        ],
    ),
}


@pytest.mark.parametrize("change", RIGHT.values(), ids=RIGHT.keys())
def test_right_nodes_have_no_findings(change: Change, tmp_path: Path) -> None:
    assert change.findings(tmp_path) == []


@pytest.mark.parametrize(("change", "expected"), WRONG.values(), ids=WRONG.keys())
def test_one_mistake_is_one_finding(change: Change, expected: list[str], tmp_path: Path) -> None:
    assert change.findings(tmp_path) == [f"model.onnx: attn: {each}" for each in expected]


def test_a_cache_of_a_symbolic_block_takes_the_configured_block_size(tmp_path: Path) -> None:
    static = both(("n", 32, 2, 16))

    assert Change(block_size=64).findings(tmp_path) == []
    # What is wrong with the configuration is reported with the configuration.
    assert Change(block_size=24).findings(tmp_path) == []
    assert Change(block_size=64, inputs=static).findings(tmp_path) == []


def test_more_inputs_than_the_operator_has(tmp_path: Path) -> None:
    node = Node(
        inputs=packed_inputs()
        | {
            "attention_bias": Input("bias", HALF, (1, 1, "q", "c")),
        },
        extra_inputs=("x",),
    )

    found = [str(each) for each in check_model_proto(node.model(), tmp_path)]

    assert found == [
        "model.onnx: attn: inputs: expected at most 19, got 20 (graph.too_many_inputs)"
    ]


def test_declared_results_that_attention_does_not_have(tmp_path: Path) -> None:
    wrong = Node(declared={"attention": (HALF, ("num_tokens", 128))}).model()
    right = Node(declared={"attention": (HALF, ("t", 64))}).model()

    assert list(map(str, check_model_proto(wrong, tmp_path))) == [
        (
            "model.onnx: attn: attention: expected float16 [num_tokens, 64], "
            "as the graph computes it, got float16 [num_tokens, 128] (graph.shape_contradicts)"
        )
    ]
    assert check_model_proto(right, tmp_path) == ()


def test_names_of_a_file_are_shown_without_control_characters(tmp_path: Path) -> None:
    model = Node(attributes={"num_heads": 4, "kv_num_heads": 2, "x\x1b[2J" + "y" * 500: 1}).model()

    (found,) = check_model_proto(model, tmp_path)

    assert found.name.startswith("x\\x1b[2Jyyy")
    assert len(found.name) < 130


def test_all_shapes_of_caches_are_the_same(tmp_path: Path) -> None:
    assert packed_inputs()["key_cache"].shape == CACHE
    assert Change(inputs=both(CACHE)).findings(tmp_path) == []
