"""Sizes: pools whose offsets pass 32 bits, blocks of 16 to 1,024, heads of 8 to 576, ratios to 71.

Whatever the size, the oracle in float64 is the judge. test_scale has the same for plain caches
against torch's own attention; here are the other cache types, LATENT, packed and strided rows.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    in_every_type,
    oracle_output,
    with_inputs,
)
from pa_kernels.testing import ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

# The module has no name for it before Python 3.13.
MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0

ROWS = ((33, 1), (15, 3), (0, 17))
INT8: dict[str, Any] = {"cache_dtype": torch.int8, "quant_type": "PER_CHANNEL"}
FLOAT8: dict[str, Any] = {"cache_dtype": torch.float8_e4m3fn, "quant_type": "PER_TENSOR"}
GROUPS = (1, 2, 3, 5, 7, 8, 12, 16, 71)
HEAD_SIZES = (8, 16, 24, 56, 64, 72, 128, 192, 256, 512, 576)
BLOCK_SIZES = (16, 32, 64, 128, 256, 512, 1024)


def expect_oracle(seed: int, options: ProblemOptions, kernel: Kernel) -> None:
    output = kernel.output(random_paged_problem(seed, options))

    expect_close(output, oracle_output(seed, options))


HEADS: Mapping[str, ProblemOptions] = {
    f"{name}-{size}": replace(options, head_size=size)
    for size in HEAD_SIZES
    for name, options in {
        "float32": ProblemOptions(rows=ROWS, is_packed=True, is_strided=True),
        "bfloat16-int8": ProblemOptions(rows=ROWS, dtype=torch.bfloat16, **INT8),
        "float16-fp8": ProblemOptions(rows=ROWS, dtype=torch.float16, is_packed=True, **FLOAT8),
        "latent": replace(LATENT, rows=ROWS, v_head_size=max(8, size - 64), rotary_dim=0),
    }.items()
}


@each_eligible(
    {name: replace(options, rotary_offset=0) for name, options in HEADS.items()}, oracle=()
)
def test_any_head_size_in_any_mode(options: ProblemOptions, kernel: Kernel) -> None:
    expect_oracle(options.head_size, options, kernel)


RATIOS: Mapping[str, ProblemOptions] = {
    f"{name}-{group}": replace(options, num_heads=group * options.kv_num_heads)
    for group in GROUPS
    for name, options in {
        "float32-int8": ProblemOptions(rows=ROWS, head_size=24, **INT8),
        "bfloat16-fp8": ProblemOptions(
            rows=ROWS, head_size=16, dtype=torch.bfloat16, has_sink=True, **FLOAT8
        ),
        "float16": ProblemOptions(rows=ROWS, dtype=torch.float16, is_packed=True),
        "latent": replace(LATENT, rows=ROWS),
    }.items()
}


@each_eligible(RATIOS, oracle=())
def test_any_number_of_query_heads_for_a_kv_head(options: ProblemOptions, kernel: Kernel) -> None:
    expect_oracle(options.num_heads, options, kernel)


BLOCKS: Mapping[str, ProblemOptions] = {
    f"{name}-{size}": replace(
        options,
        block_size=size,
        rows=((size - 1, 2), (size, 1), (2 * size + 1, 1), (0, min(size, 70)), (size - 1, 1)),
    )
    for size in BLOCK_SIZES
    for name, options in {
        "float32-fp8": ProblemOptions(num_heads=2, kv_num_heads=1, head_size=16, **FLOAT8),
        "bfloat16-int8": ProblemOptions(
            num_heads=2, kv_num_heads=1, head_size=8, dtype=torch.bfloat16, **INT8
        ),
        "latent": replace(LATENT, window_tokens=40),
    }.items()
}


@each_eligible(BLOCKS, oracle=())
def test_any_block_size_at_its_edges(options: ProblemOptions, kernel: Kernel) -> None:
    expect_oracle(options.block_size, options, kernel)


@each_eligible(in_every_type(ProblemOptions(rows=ROWS, is_packed=True, has_qk_norm=True)))
def test_packed_rows_may_lie_apart(options: ProblemOptions, kernel: Kernel) -> None:
    dense = random_paged_problem(1, options)
    tokens, width = dense.inputs.query.shape
    wide = torch.full((tokens, width + 24), torch.nan, dtype=options.dtype)
    wide[:, 8 : 8 + width] = dense.inputs.query
    strided = with_inputs(dense.clone(), query=wide[:, 8 : 8 + width])
    assert strided.inputs.query.stride() == (width + 24, 1)

    outputs = [kernel.output(each) for each in (dense, strided)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert torch.equal(bits(dense.inputs.key_cache), bits(strided.inputs.key_cache))


FAR_ROWS = ((33, 3), (15, 1), (70, 1))
FAR = ProblemOptions(num_heads=4, kv_num_heads=2, head_size=128, rows=FAR_ROWS, rotary_dim=16)
FAR_LATENT = replace(LATENT, head_size=576, v_head_size=512, rotary_dim=0, rows=FAR_ROWS)
# Each pool passes 2^32 bytes; those marked so pass 2^31 and 2^32 elements too.
FAR_POOLS: Mapping[str, ProblemOptions] = {
    "float32": FAR,
    "bfloat16": replace(FAR, dtype=torch.bfloat16),
    "float16": replace(FAR, dtype=torch.float16, is_packed=True),
    "int8-elements": replace(FAR, **INT8),
    "fp8-elements": replace(FAR, dtype=torch.bfloat16, **FLOAT8),
    "latent-bfloat16": replace(FAR_LATENT, dtype=torch.bfloat16),
    "latent-fp8-elements": replace(FAR_LATENT, **FLOAT8),
}


def far_cache(near: Tensor, places: Tensor, num_blocks: int) -> Tensor:
    """Return a pool of address space in which only the given blocks are ever touched."""
    size = num_blocks * near[0].numel() * near.element_size()
    # Without the reservation a pool larger than the machine's memory would be refused.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    pool = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=near.dtype)
    cache = pool.view(num_blocks, *near.shape[1:])
    for place, block in zip(places.tolist(), near.view(torch.uint8), strict=True):
        cache[place].view(torch.uint8).copy_(block)
    return cache


@each_eligible(FAR_POOLS)
def test_blocks_behind_32_bits_are_stored_and_read(options: ProblemOptions, kernel: Kernel) -> None:
    near = random_paged_problem(1, options)
    used, cache = near.inputs.key_cache.shape[0], near.inputs.key_cache
    num_blocks = 2**32 // (cache[0].numel() * cache.element_size()) + 100
    # From the last block down, over the whole pool.
    places = num_blocks - 1 - torch.arange(used) * (num_blocks // (used + 1))
    table = near.inputs.block_table
    is_block = (table >= 0) & (table < used)
    far = with_inputs(
        near.clone(),
        block_table=places[table.where(is_block, 0).long()].int().where(is_block, -1),
        **{
            name: far_cache(each, places, num_blocks)
            for name in ("key_cache", "value_cache")
            if (each := getattr(near.inputs, name)) is not None
        },
    )
    assert far.inputs.key_cache.numel() * far.inputs.key_cache.element_size() > 2**32

    outputs = [kernel.output(each) for each in (near, far)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    for name in ("key_cache", "value_cache"):
        if (pool := getattr(far.inputs, name)) is not None:
            found = torch.stack([pool[place].view(torch.uint8) for place in places.tolist()])
            assert torch.equal(found, getattr(near.inputs, name).view(torch.uint8))
