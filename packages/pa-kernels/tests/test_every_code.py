"""Every code of a quantized cache counts with its value, at every place of a row."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from every_backend import KERNELS, Kernel, int32
from pa_kernels.testing import expect_close
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor

BLOCK = 16
HEAD_SIZES = (64, 136)
"""Whole chunks of 64 channels, and two with a rest of 8."""
FLOAT8 = torch.float8_e4m3fn


def codes_of(cache_dtype: torch.dtype) -> Tensor:
    """Return all 256 codes of a type."""
    return torch.arange(256, dtype=torch.uint8).view(cache_dtype)


def call(
    query: Tensor, keys: Tensor, values: Tensor, num_heads: int
) -> tuple[PagedAttentionInputs[Tensor], PagedAttentionAttributes]:
    """One token a row, which is not stored: keys and values [rows, seen, D] lie in the cache."""
    rows, seen, size = keys.shape
    caches = []
    for stored in (keys, values):
        # NaN, or -1: a slot that nobody may read shows.
        cache = torch.full((rows, BLOCK, 1, size), 0xFF, dtype=torch.uint8)
        cache[:, :seen, 0] = stored.view(torch.uint8)
        caches.append(cache.view(stored.dtype))
    scale = torch.ones(1)
    inputs = PagedAttentionInputs(
        query=query.repeat(1, num_heads),
        key=torch.zeros(rows, size, dtype=query.dtype),
        value=torch.zeros(rows, size, dtype=query.dtype),
        key_cache=caches[0],
        value_cache=caches[1],
        cumulative_sequence_length=torch.arange(rows + 1, dtype=torch.int32),
        past_seqlens=torch.full((rows,), seen - 1, dtype=torch.int32),
        block_table=torch.arange(rows, dtype=torch.int32)[:, None],
        slot_mapping=int32(*[-1] * rows),
        k_scale=scale,
        v_scale=scale,
    )
    attributes = PagedAttentionAttributes(
        num_heads, 1, scale=1.0, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR"
    )
    return inputs, attributes


def run(kernel: Kernel, query: Tensor, keys: Tensor, values: Tensor, num_heads: int) -> Tensor:
    """Return [rows, heads, D]."""
    inputs, attributes = call(query, keys, values, num_heads)
    return kernel.run(inputs, attributes).output.view(len(query), num_heads, -1)


each_kernel = pytest.mark.parametrize(
    ("kernel", "cache_dtype", "dtype", "num_heads"),
    [
        pytest.param(*case, id="-".join(str(part).removeprefix("torch.") for part in case))
        for case in product(
            KERNELS, (torch.int8, FLOAT8), (torch.float32, torch.bfloat16), (1, 2, 3, 8)
        )
    ],
)
"""Kernels, caches, activations and query heads a KV head."""


@each_kernel
def test_a_value_alone_is_the_output(
    kernel: Kernel, cache_dtype: torch.dtype, dtype: torch.dtype, num_heads: int
) -> None:
    for size in HEAD_SIZES:
        place = torch.arange(256)[:, None] + torch.arange(size)
        values = codes_of(cache_dtype).view(torch.uint8)[place % 256].view(cache_dtype)
        keys = torch.zeros(256, 1, size, dtype=torch.uint8).view(cache_dtype)
        query = torch.ones(256, size, dtype=dtype)
        output = run(kernel, query, keys, values[:, None], num_heads)
        # A weight of 1, and all codes are exact in bfloat16.
        expected = values.float().to(dtype)[:, None].expand_as(output)
        assert torch.equal(output.nan_to_num(1e4), expected.nan_to_num(1e4))


def steps(cache_dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes, for each the one below it in size, and what makes the step between them 1."""
    if cache_dtype == torch.int8:
        upper = torch.arange(-127, 128, dtype=torch.int8)
        return upper, upper - 1, torch.ones(len(upper))
    upper = codes_of(FLOAT8)[[code for code in range(256) if 0 < code & 0x7F < 0x7F]]
    lower = (upper.view(torch.uint8) - 1).view(FLOAT8)
    return upper, lower, 1 / (upper.float() - lower.float())


@each_kernel
def test_neighbouring_codes_of_keys_are_a_step_apart(
    kernel: Kernel, cache_dtype: torch.dtype, dtype: torch.dtype, num_heads: int
) -> None:
    for size in HEAD_SIZES:
        upper, lower, inverse = steps(cache_dtype)
        rows = torch.arange(len(upper))
        keys = torch.zeros(len(upper), 2, size, dtype=torch.uint8)
        keys[rows, 0, rows % size] = upper.view(torch.uint8)
        keys[rows, 1, rows % size] = lower.view(torch.uint8)
        query = torch.zeros(len(upper), size)
        query[rows, rows % size] = inverse  # a power of two
        values = torch.zeros(len(upper), 2, size).to(cache_dtype)
        values[:, 0] = 1
        output = run(kernel, query.to(dtype), keys.view(cache_dtype), values, num_heads)
        # Logits l + 1 and l: weights e / (1 + e) and 1 / (1 + e), of values 1 and 0. A code read
        # as its neighbour gives 1/2 or e^2 / (1 + e^2).
        expect_close(output, torch.full(output.shape, math.e / (1 + math.e)).double())


@each_kernel
def test_a_float8_key_that_is_nan_spoils_its_row_alone(
    kernel: Kernel, cache_dtype: torch.dtype, dtype: torch.dtype, num_heads: int
) -> None:
    size = HEAD_SIZES[1]
    keys = torch.zeros(2, 1, size, dtype=torch.uint8)
    keys[1, 0, size - 1] = 0xFF
    values = torch.ones(2, 1, size).to(cache_dtype)
    query = torch.ones(2, size, dtype=dtype)
    output = run(kernel, query, keys.view(cache_dtype), values, num_heads)
    assert bool((output[0] == 1).all())
    # As int8 the byte is -1, like any other number.
    assert bool(output[1].isnan().all()) == (cache_dtype == FLOAT8)
