"""The oracle against a second implementation that shares nothing with it.

Method: a dictionary from slot to numbers stands for the caches, every token and head is a loop in
float64, RoPE is a complex product. Random problems; outputs, score matrices and caches must agree.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pa_kernels import reference
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    random_options,
    random_paged_problem,
)
from torch import Tensor

Vector = NDArray[np.float64]


@dataclass
class Naive:
    """Plain loops over one problem."""

    problem: PagedProblem

    def __post_init__(self) -> None:
        self.inputs, self.options = self.problem.inputs, self.problem.options
        self.size, self.block_size = self.options.head_size, self.options.block_size
        self.v_size = self.options.v_head_size or self.size
        self.keys = self.memory(self.inputs.key_cache, self.inputs.k_scale)
        if self.inputs.value_cache is None:
            self.values = self.keys
        else:
            self.values = self.memory(self.inputs.value_cache, self.inputs.v_scale)
        bounds = self.inputs.cumulative_sequence_length.tolist()
        self.tokens = [
            (row, j, bounds[row] + j)
            for row in range(len(bounds) - 1)
            for j in range(bounds[row + 1] - bounds[row])
        ]
        self.new = [bounds[row + 1] - bounds[row] for row in range(len(bounds) - 1)]

    def memory(self, cache: Tensor, scale: Tensor | None) -> dict[int, Vector]:
        """Slot to heads [K, D], dequantized."""
        rows = cache.reshape(-1, *cache.shape[2:]).double().numpy()
        factor = 1.0 if scale is None else self.factor(scale)
        return {slot: rows[slot] * factor for slot in range(len(rows))}

    def factor(self, scale: Tensor) -> Any:
        return scale.double().reshape((1, 1) if scale.numel() == 1 else (-1, self.size)).numpy()

    def slot(self, row: int, position: int) -> int:
        block = int(self.inputs.block_table[row, position // self.block_size])
        if not 0 <= block < self.inputs.key_cache.shape[0]:
            return -1
        return block * self.block_size + position % self.block_size

    def position(self, row: int, j: int, token: int) -> int:
        if self.inputs.query_positions is not None:
            return int(self.inputs.query_positions[token])
        return int(self.inputs.past_seqlens[row]) + j

    def heads(self, token: int, part: str) -> Vector:
        counts = {"query": self.options.num_heads, "key": self.options.kv_num_heads}
        counts["value"] = counts["key"]
        source = getattr(self.inputs, part)
        if self.options.is_packed and not self.options.v_head_size:
            first = {"query": 0, "key": counts["query"], "value": counts["query"] + counts["key"]}
            source = self.inputs.query[:, first[part] * self.size :]
        flat = source[token, : counts[part] * self.size].double().numpy()
        heads: Vector = flat.reshape(-1, self.size)
        return heads

    def prepared(self, heads: Vector, weight: Tensor | None, position: int) -> Vector:
        """Norm, then rotate, one head at a time."""
        done = []
        for original in heads:
            head = original.copy()
            if weight is not None:
                mean = math.fsum(x * x for x in head) / self.size
                head = head / math.sqrt(mean + 1e-6) * weight.double().numpy()
            half = self.options.rotary_dim // 2
            for i in range(half):
                assert self.inputs.cos_cache is not None
                assert self.inputs.sin_cache is not None
                angle = complex(
                    self.inputs.cos_cache[position, i], self.inputs.sin_cache[position, i]
                )
                a, b = (2 * i, 2 * i + 1) if self.options.rotary_interleaved else (i, i + half)
                a, b = a + self.options.rotary_offset, b + self.options.rotary_offset
                turned = complex(head[a], head[b]) * angle
                head[a], head[b] = turned.real, turned.imag
            done.append(head)
        return np.array(done)

    def rounded(self, heads: Vector, cache: Tensor, scale: Tensor | None) -> Vector:
        """What a cache gives back for heads that were stored in it."""
        factor = 1.0 if scale is None else self.factor(scale)
        codes = torch.from_numpy(heads / factor)
        if cache.dtype == torch.int8:
            codes = torch.from_numpy(np.clip(np.rint(codes.numpy()), -128, 127))
        elif cache.dtype == torch.float8_e4m3fn:
            codes = codes.clamp(-448, 448).float()
        stored: Vector = codes.to(cache.dtype).double().numpy()
        return stored * factor

    def run(self) -> tuple[Vector, Vector]:
        """Return the output [T, H*Dv] and the scores [H, T, context]."""
        queries = {}
        for row, j, token in self.tokens:
            position = self.position(row, j, token)
            weights = self.inputs.q_norm_weight, self.inputs.k_norm_weight
            queries[token] = self.prepared(self.heads(token, "query"), weights[0], position)
            slot = self.slot(row, int(self.inputs.past_seqlens[row]) + j)
            if self.inputs.slot_mapping is not None:
                slot = int(self.inputs.slot_mapping[token])
            if slot >= 0:
                key = self.prepared(self.heads(token, "key"), weights[1], position)
                self.keys[slot] = self.rounded(key, self.inputs.key_cache, self.inputs.k_scale)
                if self.inputs.value_cache is not None:
                    cache, scale = self.inputs.value_cache, self.inputs.v_scale
                    self.values[slot] = self.rounded(self.heads(token, "value"), cache, scale)
        width = self.inputs.block_table.shape[1] * self.block_size
        if self.inputs.attention_metadata is not None:
            width = int(self.inputs.attention_metadata[1]) or width
        output = np.zeros((len(self.tokens), self.options.num_heads, self.v_size))
        masked = 0.0 if self.options.qk_output == 2 else -math.inf
        scores = np.full((self.options.num_heads, len(self.tokens), width), masked)
        for row, j, token in self.tokens:
            for head in range(self.options.num_heads):
                query = queries[token][head]
                output[token, head] = self.attend(query, (row, j, token, head), scores)
        return output.reshape(len(self.tokens), -1), scores

    def attend(self, query: Vector, place: tuple[int, int, int, int], scores: Vector) -> Vector:
        row, j, token, head = place
        kv_head = head // (self.options.num_heads // self.options.kv_num_heads)
        last = self.position(row, j, token)
        logits: dict[int, float] = {}
        for position in range(int(self.inputs.past_seqlens[row]) + self.new[row]):
            too_old = self.options.window_tokens and position <= last - self.options.window_tokens
            if position > last or too_old or self.slot(row, position) < 0:
                continue
            scale = self.options.scale or 1 / math.sqrt(self.size)
            logit = float(query @ self.keys[self.slot(row, position)][kv_head]) * scale
            if self.options.softcap:
                logit = self.options.softcap * math.tanh(logit / self.options.softcap)
            if (bias := self.inputs.attention_bias) is not None:
                logit += float(bias[min(row, bias.shape[0] - 1), head, j, position])
            logits[position] = logit
        total = math.fsum(math.exp(logit) for logit in logits.values())
        if self.inputs.head_sink is not None:
            total += math.exp(float(self.inputs.head_sink[head]))
        result = np.zeros(self.v_size)
        for position, logit in logits.items():
            probability = math.exp(logit) / total
            result += probability * self.values[self.slot(row, position)][kv_head][: self.v_size]
            if position < scores.shape[2]:
                is_probability = self.options.qk_output == 2
                scores[head, token, position] = probability if is_probability else logit
        return result


def small(seed: int, **changes: Any) -> ProblemOptions:
    """Random options, with few heads so that the loops stay short."""
    options = random_options(seed)
    group = options.num_heads // options.kv_num_heads
    heads = {"num_heads": min(group, 3) * 2, "kv_num_heads": 2}
    size = min(options.head_size, 24)
    rotary = {"rotary_dim": min(options.rotary_dim, size), "head_size": size}
    return replace(options, **(heads | rotary | {"block_size": 16} | changes))


def expect_equal(options: ProblemOptions, seed: int) -> None:
    problem = random_paged_problem(seed, options)
    naive = Naive(problem.clone())
    expected, scores = naive.run()

    result = reference.run(problem.inputs, problem.attributes, torch.float64)

    torch.testing.assert_close(result.output, torch.from_numpy(expected), atol=1e-6, rtol=1e-6)
    if result.output_qk is not None:
        wanted_scores = torch.from_numpy(scores)
        torch.testing.assert_close(result.output_qk, wanted_scores, atol=1e-6, rtol=1e-6)
    left = Naive(problem)  # reads the caches that the oracle has written
    for found, wanted in ((left.keys, naive.keys), (left.values, naive.values)):
        for slot, heads in wanted.items():
            np.testing.assert_allclose(found[slot], heads, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_common_features_in_random_combination(seed: int) -> None:
    expect_equal(small(seed), seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "changes",
    [
        {"has_bias": True, "softcap": 3.0, "qk_output": 1},
        {"has_bias": True, "has_sink": True, "qk_output": 2},
        {"has_query_positions": True, "window_tokens": 9, "rotary_dim": 8},
        {"rotary_dim": 8, "rotary_offset": 8, "head_size": 24},
        {"qk_output": 2, "metadata_entries": 3},
        {"cache_dtype": torch.int8, "quant_type": "PER_TENSOR"},
        {"cache_dtype": torch.int8, "quant_type": "PER_CHANNEL"},
        {"cache_dtype": torch.float8_e4m3fn, "quant_type": "PER_CHANNEL"},
    ],
    ids="-".join,
)
def test_rare_features_in_random_combination(changes: dict[str, Any], seed: int) -> None:
    expect_equal(small(seed + 100, **changes), seed)


LATENT = {
    "v_head_size": 16,
    "head_size": 24,
    "kv_num_heads": 1,
    "rotary_dim": 8,
    "rotary_offset": 16,
    "scale": 0.2,
    "has_sink": False,
    "has_qk_norm": False,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quant", [{}, {"cache_dtype": torch.int8, "quant_type": "PER_CHANNEL"}])
def test_the_latent_layout_takes_values_from_the_key_cache(
    quant: dict[str, Any], seed: int
) -> None:
    expect_equal(small(seed, **(LATENT | quant)), seed)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("seed", range(4))
def test_half_precision_caches_hold_rounded_keys(dtype: torch.dtype, seed: int) -> None:
    problem = random_paged_problem(seed, small(seed, dtype=dtype))
    expected, _ = Naive(problem.clone()).run()

    result = reference.run(problem.inputs, problem.attributes)

    expect_close(result.output, torch.from_numpy(expected), torch.float32)


def test_the_rotation_of_the_naive_loops_is_a_rotation() -> None:
    assert cmath.isclose(complex(3, 4) * cmath.exp(1j * math.pi / 2), complex(-4, 3))
