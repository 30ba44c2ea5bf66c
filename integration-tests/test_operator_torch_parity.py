"""torch's scaled_dot_product_attention and FlexAttention agree with every backend.

Method: ragged problems with shuffled, shared and missing blocks, row by row in dense form; the
context is read from the pools as a backend leaves them, the pools are compared beside it. QK-norm
is torch's rms_norm, rotation is that of transformers' models.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from dense_attention import Attention, flex_attention, sdpa
from dense_rows import dense_rows
from every_backend import eligible, with_entries, with_inputs
from gqa_rows import normalized_heads
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    random_options,
    random_paged_problem,
)
from stored_rows import OracleRow, expect_caches
from torch import Tensor
from transformers.models.deepseek_v2.modeling_deepseek_v2 import apply_rotary_emb
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

ATTENTION = {"sdpa": sdpa, "flex": flex_attention}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
STORED = {
    "float32": (torch.float32, None, "NONE"),
    "float16": (torch.float16, None, "NONE"),
    "bfloat16": (torch.bfloat16, None, "NONE"),
    "int8 per tensor": (torch.float32, torch.int8, "PER_TENSOR"),
    "int8 per channel": (torch.bfloat16, torch.int8, "PER_CHANNEL"),
    "fp8 per tensor": (torch.float16, torch.float8_e4m3fn, "PER_TENSOR"),
    "fp8 per channel": (torch.float32, torch.float8_e4m3fn, "PER_CHANNEL"),
}
ROWS = ((0, 19), (18, 6), (16, 0), (37, 1))
every_attention = pytest.mark.parametrize("attention", ATTENTION.values(), ids=ATTENTION)


def expect_parity(problem: PagedProblem, attention: Attention) -> None:
    """Compare outputs and pools of every eligible implementation, row by row."""
    query, key, value = normalized_heads(problem)
    query, key = turned(problem, query), turned(problem, key)
    for kernel in eligible(problem.signature):
        own = problem.clone()
        output = kernel.output(own)
        expected = attention(query, own)
        expect_close(output, expected)
        rows = []
        for row in dense_rows(problem):
            stored = None if value is None else value[row.tokens]
            rows.append(OracleRow(expected[row.tokens], key[row.tokens], stored))
        expect_caches(problem, own, rows)


def turned(problem: PagedProblem, heads: Tensor) -> Tensor:
    """Rotate heads [T, heads, D] as transformers does: Llama by halves, DeepSeek-V2 by pairs."""
    inputs, options = problem.inputs, problem.options
    if inputs.cos_cache is None or inputs.sin_cache is None:
        return heads
    position = positions(problem)
    cosine, sine = inputs.cos_cache.float()[position], inputs.sin_cache.float()[position]
    first, last = options.rotary_offset, options.rotary_offset + options.rotary_dim
    part = heads[..., first:last].transpose(0, 1)[None]
    if options.rotary_interleaved:
        rotated = apply_rotary_emb(part, part, torch.complex(cosine, sine)[None])[0]
    else:
        doubled = [torch.cat((each, each), dim=-1)[None] for each in (cosine, sine)]
        rotated = apply_rotary_pos_emb(part, part, *doubled)[0]
    return torch.cat((heads[..., :first], rotated[0].transpose(0, 1), heads[..., last:]), dim=-1)


def positions(problem: PagedProblem) -> Tensor:
    """Return every token's position [T]: the caller's, or behind the past."""
    given = problem.inputs.query_positions
    if given is not None:
        return given.long()
    return torch.cat([row.past + torch.arange(row.new) for row in dense_rows(problem)])


def problem_of(seed: int, stored: str, **options: object) -> PagedProblem:
    dtype, cache_dtype, quant_type = STORED[stored]
    given = ProblemOptions(dtype=dtype, cache_dtype=cache_dtype, quant_type=quant_type, rows=ROWS)
    return random_paged_problem(seed, replace(given, **options))  # type: ignore[arg-type]


@every_attention
@pytest.mark.parametrize("seed", range(24))
def test_random_ragged_batches_agree(seed: int, attention: Attention) -> None:
    """With rows whose blocks are all missing, and contexts with holes."""
    options = random_options(seed, DTYPES[seed % 3])
    options = replace(options, has_bias=seed % 4 == 0, has_padding_row=seed % 3 == 0)
    options = replace(options, has_holes=seed % 5 == 0, has_query_positions=seed % 7 == 0)
    if attention is sdpa:
        options = replace(options, softcap=0.0)
    problem = random_paged_problem(seed, options)
    if problem.inputs.query.shape[0] > 0:
        expect_parity(problem, attention)


@every_attention
@pytest.mark.parametrize("group", [1, 3, 8, 71])
@pytest.mark.parametrize("stored", ["float32", "float16", "int8 per channel", "fp8 per tensor"])
def test_every_ratio_of_heads_agrees(stored: str, group: int, attention: Attention) -> None:
    problem = problem_of(group, stored, num_heads=2 * group, has_sink=True)
    expect_parity(problem, attention)


@every_attention
@pytest.mark.parametrize("window", [1, 16, 24, 37, 38, 39, 500])
@pytest.mark.parametrize("has_sink", [False, True], ids=["no sink", "sink"])
def test_windows_around_the_context_agree(
    window: int, attention: Attention, *, has_sink: bool
) -> None:
    for seed, stored in enumerate(("float32", "bfloat16", "int8 per channel")):
        options = {"window_tokens": window, "has_sink": has_sink, "has_slot_mapping": seed == 0}
        expect_parity(problem_of(seed, stored, **options), attention)


@pytest.mark.parametrize("softcap", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("stored", STORED)
def test_softcaps_agree_with_flex_attention(stored: str, softcap: float) -> None:
    for seed, has_sink in enumerate((False, True)):
        problem = problem_of(seed, stored, softcap=softcap, has_sink=has_sink, window_tokens=11)
        expect_parity(problem, flex_attention)


@every_attention
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("heads", [1, 4])
def test_a_bias_of_every_broadcast_agrees(batch: int, heads: int, attention: Attention) -> None:
    for seed, stored in enumerate(("float32", "float16", "int8 per tensor")):
        problem = problem_of(seed, stored, has_sink=True)
        generator = torch.Generator().manual_seed(batch * heads)
        bias = torch.randn(batch, heads, 22, 41, generator=generator)
        expect_parity(
            with_inputs(problem, attention_bias=bias.to(problem.inputs.query.dtype)), attention
        )


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.7])
@pytest.mark.parametrize("stored", ["float32", "float16", "int8 per tensor"])
def test_the_epsilon_of_norms_is_that_of_rms_norm(stored: str, epsilon: float) -> None:
    problem = problem_of(2, stored, has_qk_norm=True)
    attributes = replace(problem.attributes, qk_norm_epsilon=epsilon)

    expect_parity(replace(problem, attributes=attributes), sdpa)


@every_attention
@pytest.mark.parametrize("stored", ["float32", "bfloat16", "fp8 per channel"])
def test_entries_of_a_table_that_map_nothing_are_masked(stored: str, attention: Attention) -> None:
    """A hole in the past, one that new tokens fall into, and a row that has no block at all."""
    problem = problem_of(1, stored, has_sink=stored == "float32")
    holes = with_entries(problem, -1, (1, 0), (3, 1), (0, 0), (0, 1))

    expect_parity(holes, attention)


@every_attention
@pytest.mark.parametrize("is_interleaved", [False, True], ids=["halves", "pairs"])
@pytest.mark.parametrize("window", [0, 6])
def test_given_positions_turn_heads_and_move_masks(
    window: int, attention: Attention, *, is_interleaved: bool
) -> None:
    for seed, rotary_dim in enumerate((8, 24, 32)):
        options: dict[str, object] = {
            "rotary_dim": rotary_dim,
            "rotary_interleaved": is_interleaved,
            "rotary_offset": 32 - rotary_dim if seed else 0,
            "window_tokens": window,
            "has_query_positions": True,
        }
        problem = problem_of(seed, "float32", **options)
        assert not torch.equal(positions(problem), linear(problem))
        expect_parity(problem, attention)


def linear(problem: PagedProblem) -> Tensor:
    return positions(with_inputs(problem, query_positions=None))


@every_attention
@pytest.mark.parametrize("window", [0, 9])
@pytest.mark.parametrize("stored", STORED)
def test_latent_caches_agree(stored: str, window: int, attention: Attention) -> None:
    """Values are the first channels of the keys, quantized with the keys' scale."""
    options: dict[str, object] = {
        "num_heads": 5,
        "kv_num_heads": 1,
        "head_size": 48,
        "v_head_size": 32,
        "rotary_dim": 16,
        "rotary_offset": 32,
        "scale": 0.15,
        "window_tokens": window,
        "has_slot_mapping": window > 0,
    }
    expect_parity(problem_of(window, stored, **options), attention)


def test_rows_are_the_rows_of_the_problem() -> None:
    rows = list(dense_rows(problem_of(0, "float32")))
    assert [(each.past, each.new) for each in rows] == [(0, 19), (18, 6), (37, 1)]
    assert all(bool((each.slot >= 0).all()) for each in rows)
