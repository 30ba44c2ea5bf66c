"""Goal: one mistake in a node's caches or types is one finding, in the file's own words.

Method: as in test_graph_node.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_changes import CACHE_NAMES, PER_CHANNEL, THREE, Change, both, quantized
from onnx import TensorProto
from paged_graphs import FLOAT, HALF, INT8, Input, latent_inputs

UINT8, INT64, DOUBLE = TensorProto.UINT8, TensorProto.INT64, TensorProto.DOUBLE
PER_TOKEN = {"k_quant_type": "PER_TOKEN", "v_quant_type": "PER_TOKEN", "qk_rotation": "HADAMARD"}
HALVED = ("num_blocks", "block_size", 2, 8)
ATTENTION_TYPES = "float16 or bfloat16 or float32"
NO_QUANT = "expected float16 as query, because k_quant_type is NONE"
ONE_OF = 'expected one of "", float16, bfloat16, int8, float8e4m3fn'

# What differs, and all that is reported, without "model.onnx: attn: ".
WRONG: dict[str, tuple[Change, list[str]]] = {
    "a newer revision": (
        Change(
            attributes=PER_TOKEN,
            inputs={
                **both(INT8),
                "query_positions": Input("k_scale", HALF, ("num_blocks", "block_size", 2)),
                "attention_bias": Input("v_scale", HALF, ("num_blocks", "block_size", 2)),
            },
            outputs=(*THREE, "present.0.key_scale", "present.0.value_scale"),
        ),
        [
            f"{side}_quant_type: expected one of NONE, PER_TENSOR, PER_CHANNEL, "
            "got 'PER_TOKEN' (a newer revision of the operator) (V8)"
            for side in "kv"
        ],
    ),
    "a misspelt quantization": (
        Change(attributes=PER_CHANNEL | {"k_quant_type": "per_channel"}, inputs=quantized()),
        ["k_quant_type: expected one of NONE, PER_TENSOR, PER_CHANNEL, got 'per_channel' (V8)"],
    ),
    "int4 caches": (
        Change(
            attributes=PER_CHANNEL | {"k_cache_dtype": "int4", "v_cache_dtype": "int4"},
            inputs=quantized(
                key_cache=Input("past_key_values.0.key", UINT8, HALVED),
                value_cache=Input("past_key_values.0.value", UINT8, HALVED),
            ),
        ),
        [
            f"{side}_cache_dtype: {ONE_OF}; types packed two in a byte are reserved, "
            "got 'int4' (V50)"
            for side in "kv"
        ],
    ),
    "a transposed cache": (
        Change(inputs={"value_cache": ("block_size", "num_blocks", 2, 16)}),
        [
            (
                "value_cache: expected the shape of key_cache, [num_blocks, block_size, 2, 16], "
                "got [block_size, num_blocks, 2, 16] (V31)"
            )
        ],
    ),
    "a transposed key cache": (
        Change(inputs={"key_cache": ("block_size", "num_blocks", 2, 16)}),
        [
            (
                "value_cache: expected the shape of key_cache, [block_size, num_blocks, 2, 16], "
                "got [num_blocks, block_size, 2, 16] (V31)"
            )
        ],
    ),
    "blocks and heads exchanged": (
        Change(inputs={"key_cache": ("num_blocks", 2, "block_size", 16)}),
        [
            (
                "key_cache: expected a block size that is a power of two, at least 16, "
                "got 2 in [num_blocks, 2, block_size, 16] (V29)"
            )
        ],
    ),
    "other KV heads in one cache": (
        Change(inputs={"key_cache": ("num_blocks", "block_size", 4, 16)}),
        ["key_cache: expected [N, S, 2, 16], got [num_blocks, block_size, 4, 16] (V30)"],
    ),
    "other KV heads in both": (
        Change(inputs=both(("num_blocks", "block_size", 4, 16))),
        ["key_cache: expected [N, S, 2, 16], got [num_blocks, block_size, 4, 16] (V30)"],
    ),
    "a short block": (
        Change(inputs=both(("n", 12, 2, 16))),
        [
            (
                "key_cache: expected a block size that is a power of two, at least 16, "
                "got 12 in [n, 12, 2, 16] (V29)"
            )
        ],
    ),
    "a flat cache": (
        Change(inputs={"key_cache": ("n", "s", 32)}),
        ["key_cache: expected [N, S, K, D], got [n, s, 32] (V28)"],
    ),
    "an int8 key cache": (
        Change(inputs={"key_cache": INT8}),
        [f"key_cache: {NO_QUANT}, got int8 (V44)"],
    ),
    "an int8 value cache": (
        Change(inputs={"value_cache": INT8}),
        ["value_cache: expected float16 as query, because v_quant_type is NONE, got int8 (V44)"],
    ),
    "a float key cache": (
        Change(inputs={"key_cache": FLOAT}),
        [f"key_cache: {NO_QUANT}, got float32 (V45)"],
    ),
    "a float cache with a scale": (
        Change(attributes=PER_CHANNEL, inputs=quantized(key_cache=HALF)),
        [
            (
                "key_cache: expected int8 or float8e4m3fn, because k_quant_type is PER_CHANNEL, "
                "got float16 (V45)"
            )
        ],
    ),
    "scales without a type": (
        Change(attributes={"v_quant_type": "PER_CHANNEL"}, inputs=quantized()),
        ["k_scale: expected absent, because k_quant_type is NONE, got [2, 1, 16] (V43)"],
    ),
    "no scale": (
        Change(attributes=PER_CHANNEL, inputs=quantized() | {"k_scale": None}),
        ["k_scale: expected present, because k_quant_type is PER_CHANNEL, got none (V46)"],
    ),
    "no value cache": (
        Change(inputs={"value_cache": None}),
        ["value_cache: expected a cache, required with SEPARATE, got none (V27)"],
    ),
    "no key cache": (
        Change(inputs={"key_cache": None}),
        ["key_cache: expected an input, got none (graph.missing_input)"],
    ),
    "no key cache, no output": (
        Change(inputs={"key_cache": None}, outputs=("attention",)),
        ["key_cache: expected an input, got none (graph.missing_input)"],
    ),
    "a latent value cache output": (
        Change(latent_inputs, outputs=(*THREE, "")),
        ["value_cache_out: expected absent with LATENT, got an output (V56)"],
    ),
    "lengths of int64": (
        Change(inputs={"past_seqlens": INT64}),
        ["past_seqlens: expected int32, got int64 (V98)"],
    ),
    "a table of int16": (
        Change(inputs={"block_table": TensorProto.INT16}),
        ["block_table: expected int32, got int16 (V98)"],
    ),
    "query of another type than all": (
        Change(inputs={"query": FLOAT}),
        ["query: expected float16 as key_cache, got float32 (V98)"],
    ),
    "query of double": (
        Change(inputs={"query": DOUBLE}),
        [f"query: expected {ATTENTION_TYPES}, got float64 (V98)"],
    ),
    "a cosine of another type": (
        Change(inputs={"cos_cache": FLOAT}),
        ["cos_cache: expected float16 as query, got float32 (V98)"],
    ),
    "a cache of a type that is none of ours": (
        Change(inputs=both(TensorProto.FLOAT8E5M2)),
        [
            f"{name}: expected {ATTENTION_TYPES} or int8 or float8e4m3fn, got float8e5m2 (V98)"
            for name in CACHE_NAMES
        ],
    ),
}


@pytest.mark.parametrize(("change", "expected"), WRONG.values(), ids=WRONG.keys())
def test_one_mistake_is_one_finding(change: Change, expected: list[str], tmp_path: Path) -> None:
    assert change.findings(tmp_path) == [f"model.onnx: attn: {each}" for each in expected]
