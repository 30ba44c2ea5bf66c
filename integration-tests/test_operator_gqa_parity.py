"""ONNX Runtime's GroupQueryAttention agrees with every backend on every feature that both have.

Method: problems with shuffled and shared blocks, and the same ones with blocks in order; each row
is given to the node as dense tensors. gqa_oracle.py says where the two differ on purpose. Outputs
are compared in the one table of tolerances, caches slot by slot, those that nobody owns included.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from dense_rows import dense_rows, in_order
from every_backend import eligible, with_inputs
from gqa_oracle import Attribute, group_query_attention, lengths
from gqa_parity import expect_parity
from gqa_rows import normalized_heads
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    expect_stored,
    random_paged_problem,
)
from torch import Tensor

ROWS = ((0, 19), (18, 6), (16, 0), (37, 1))
"""A prompt, a chunk behind a past, a row without tokens, a decode row; blocks of 16."""

ON_OFF = (False, True)
ROTARY = {"no rope": (0, False), "halves": (32, False), "pairs": (32, True)}
STORAGE = {
    "float32": (torch.float32, None, "NONE"),
    "float16": (torch.float16, None, "NONE"),
    "bfloat16": (torch.bfloat16, None, "NONE"),
    "int8 per tensor": (torch.float32, torch.int8, "PER_TENSOR"),
    "int8 per channel": (torch.float32, torch.int8, "PER_CHANNEL"),
    "fp8 per tensor": (torch.float32, torch.float8_e4m3fn, "PER_TENSOR"),
    "fp8 per channel": (torch.float32, torch.float8_e4m3fn, "PER_CHANNEL"),
}
QUANTIZED = [name for name, (_, cache_dtype, _) in STORAGE.items() if cache_dtype is not None]


def problem_of(seed: int, options: ProblemOptions, *, is_in_order: bool = False) -> PagedProblem:
    problem = random_paged_problem(seed, replace(options, rows=options.rows or ROWS))
    return in_order(problem) if is_in_order else problem


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("rotary", ROTARY)
@pytest.mark.parametrize("has_qk_norm", ON_OFF, ids=["plain", "norm"])
@pytest.mark.parametrize("is_packed", ON_OFF, ids=["separate", "packed"])
def test_the_cross_product_of_features_agrees(
    storage: str, rotary: str, *, has_qk_norm: bool, is_packed: bool
) -> None:
    dtype, cache_dtype, quant_type = STORAGE[storage]
    rotary_dim, is_interleaved = ROTARY[rotary]
    for seed, (has_sink, window, softcap) in enumerate(product(ON_OFF, (0, 5), (0.0, 3.0))):
        options = ProblemOptions(
            dtype=dtype,
            cache_dtype=cache_dtype,
            quant_type=quant_type,
            rotary_dim=rotary_dim,
            rotary_interleaved=is_interleaved,
            has_qk_norm=has_qk_norm,
            is_packed=is_packed,
            has_sink=has_sink,
            window_tokens=window,
            softcap=softcap,
        )
        is_in_order = (seed + is_packed + has_qk_norm) % 2 == 0
        expect_parity(problem_of(seed, options, is_in_order=is_in_order))


@pytest.mark.parametrize("window", [1, 2, 15, 16, 17, 24, 36, 37, 38, 39, 1000])
@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8 per channel"])
def test_windows_around_blocks_and_the_context_agree(storage: str, window: int) -> None:
    """The decode row holds 38 tokens: windows of 37, 38 and 39 end at its first position."""
    dtype, cache_dtype, quant_type = STORAGE[storage]
    options = ProblemOptions(
        dtype=dtype, cache_dtype=cache_dtype, quant_type=quant_type, window_tokens=window
    )
    for seed, has_sink in enumerate(ON_OFF):
        expect_parity(problem_of(seed, replace(options, has_sink=has_sink)))


@pytest.mark.parametrize("group", [1, 2, 3, 7, 16, 71])
@pytest.mark.parametrize("kv_num_heads", [1, 3])
def test_every_ratio_of_heads_agrees(group: int, kv_num_heads: int) -> None:
    options = ProblemOptions(
        num_heads=group * kv_num_heads, kv_num_heads=kv_num_heads, rotary_dim=16, has_sink=True
    )
    expect_parity(problem_of(group, options))


@pytest.mark.parametrize("head_size", [16, 48, 64, 80, 128, 256])
@pytest.mark.parametrize("is_interleaved", ON_OFF, ids=["halves", "pairs"])
def test_part_of_a_head_may_turn(head_size: int, *, is_interleaved: bool) -> None:
    for rotary_dim in {16, head_size // 32 * 16, head_size // 16 * 16} - {0}:
        options = ProblemOptions(
            head_size=head_size, rotary_dim=rotary_dim, rotary_interleaved=is_interleaved
        )
        expect_parity(problem_of(head_size, options))


@pytest.mark.parametrize("block_size", [16, 64, 256])
@pytest.mark.parametrize("scale", [0.0, 0.05, 0.5])
def test_block_sizes_and_scales_agree(block_size: int, scale: float) -> None:
    rows = ((0, block_size + 1), (block_size - 1, 2), (2 * block_size, 1))
    options = ProblemOptions(block_size=block_size, scale=scale, rows=rows, is_strided=True)
    expect_parity(problem_of(block_size, options))


@pytest.mark.parametrize("cache_dtype", [torch.int8, torch.float8_e4m3fn], ids=["int8", "fp8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("k_type", "v_type"), [("PER_TENSOR", "PER_CHANNEL"), ("PER_CHANNEL", "PER_TENSOR")]
)
def test_keys_and_values_may_be_quantized_differently(
    dtype: torch.dtype, cache_dtype: torch.dtype, k_type: str, v_type: str
) -> None:
    options = ProblemOptions(
        dtype=dtype,
        cache_dtype=cache_dtype,
        quant_type=k_type,
        v_quant_type=v_type,
        rotary_dim=32,
        window_tokens=20,
        softcap=5.0,
    )
    expect_parity(problem_of(3, options))


@pytest.mark.parametrize("storage", QUANTIZED)
def test_values_beyond_the_range_of_a_cache_are_clamped(storage: str) -> None:
    dtype, cache_dtype, quant_type = STORAGE[storage]
    options = ProblemOptions(dtype=dtype, cache_dtype=cache_dtype, quant_type=quant_type)
    problem = problem_of(4, options)
    inputs = problem.inputs
    assert inputs.k_scale is not None
    assert inputs.v_scale is not None
    # At the largest code the cached number is about 0.5, and most drawn numbers are beyond it.
    shrink = 0.2 if cache_dtype == torch.int8 else 0.05
    small = with_inputs(problem, k_scale=inputs.k_scale * shrink, v_scale=inputs.v_scale * shrink)
    expect_parity(small)


@pytest.mark.parametrize("quant_type", ["PER_TENSOR", "PER_CHANNEL"])
def test_an_int8_cache_is_the_one_that_the_node_keeps_itself(quant_type: str) -> None:
    """The node quantizes, stores and reads its own int8 cache; codes and outputs agree."""
    options = ProblemOptions(cache_dtype=torch.int8, quant_type=quant_type, softcap=4.0)
    problem = problem_of(5, options)
    for kernel in eligible(problem.signature):
        own = problem.clone()
        output = kernel.run(own.inputs, own.attributes).output
        for row in dense_rows(problem):
            heads = [each[row.tokens].flatten(1)[None] for each in normalized(problem)]
            tensors = dict(zip(("query", "key", "value"), heads, strict=True))
            tensors |= lengths(row.past, row.new)
            tensors |= int8_caches(problem, row.slot[: row.past])
            attributes: dict[str, Attribute] = {
                "num_heads": options.num_heads,
                "kv_num_heads": options.kv_num_heads,
                "softcap": 4.0,
                "k_quant_type": quant_type,
                "v_quant_type": quant_type,
                "kv_cache_bit_width": 8,
            }
            found = group_query_attention(tensors, attributes)
            expect_close(output[row.tokens], found["output"][0])
            after = int8_caches(own, row.slot)
            expect_stored(after["past_key"], found["present_key"])
            expect_stored(after["past_value"], found["present_value"])


def normalized(problem: PagedProblem) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = normalized_heads(problem)
    assert value is not None
    return query, key, value


def int8_caches(problem: PagedProblem, slot: Tensor) -> dict[str, Tensor]:
    """Return codes [1, K, L, D] of these slots, and scales that fit beside them."""
    inputs = problem.inputs
    assert inputs.value_cache is not None
    assert inputs.k_scale is not None
    assert inputs.v_scale is not None
    return {
        "past_key": inputs.key_cache.flatten(0, 1)[slot].transpose(0, 1)[None],
        "past_value": inputs.value_cache.flatten(0, 1)[slot].transpose(0, 1)[None],
        "k_scale": inputs.k_scale,
        "v_scale": inputs.v_scale,
    }


@pytest.mark.parametrize("has_rope", ON_OFF, ids=["no rope", "rope"])
@pytest.mark.parametrize("storage", ["float32", "float16", "int8 per tensor", "fp8 per channel"])
def test_tokens_that_are_not_stored_attend_to_what_their_slots_hold(
    storage: str, *, has_rope: bool
) -> None:
    dtype, cache_dtype, quant_type = STORAGE[storage]
    options = ProblemOptions(
        dtype=dtype,
        cache_dtype=cache_dtype,
        quant_type=quant_type,
        has_slot_mapping=True,
        rotary_dim=32 if has_rope else 0,
    )
    problem = problem_of(6, options)
    slots = problem.inputs.slot_mapping
    assert slots is not None
    assert 0 < int((slots < 0).sum()) < len(slots)
    expect_parity(problem)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8 per channel"])
def test_a_bias_of_every_broadcast_agrees(batch: int, heads: int, storage: str) -> None:
    dtype, cache_dtype, quant_type = STORAGE[storage]
    options = ProblemOptions(
        dtype=dtype,
        cache_dtype=cache_dtype,
        quant_type=quant_type,
        softcap=3.0,
        window_tokens=9,
        has_sink=True,
    )
    generator = torch.Generator().manual_seed(batch * heads)
    bias = torch.randn(batch, heads, 21, 40, generator=generator).to(dtype)
    expect_parity(with_inputs(problem_of(7, options), attention_bias=bias))


@pytest.mark.parametrize("qk_output", [1, 2], ids=["before softmax", "after softmax"])
@pytest.mark.parametrize("window", [0, 7])
@pytest.mark.parametrize("storage", ["float32", "float16", "fp8 per channel"])
def test_score_matrices_agree(storage: str, qk_output: int, window: int) -> None:
    """With softcap, bias and sink: all of them have their part in the logits or the weights."""
    dtype, cache_dtype, quant_type = STORAGE[storage]
    options = ProblemOptions(
        dtype=dtype,
        cache_dtype=cache_dtype,
        quant_type=quant_type,
        softcap=3.0,
        window_tokens=window,
        has_sink=True,
        has_bias=True,
        qk_output=qk_output,
    )
    for metadata_entries in (0, 3):
        expect_parity(problem_of(8, replace(options, metadata_entries=metadata_entries)))
