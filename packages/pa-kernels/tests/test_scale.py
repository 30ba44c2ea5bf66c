"""Sizes: head groups, batches and block sizes without limits, against dense attention of torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pa_kernels import prepare
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from pa_kernels.testing.options import GROUP_SIZES
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def dense(problem: PagedProblem) -> Tensor:
    """Gather each row's keys and values and let torch attend; the call must have run already."""
    inputs, options = problem.inputs, problem.options
    assert inputs.value_cache is not None
    boundaries = inputs.cumulative_sequence_length.tolist()
    outputs = []
    for row, past in enumerate(inputs.past_seqlens.tolist()):
        query = inputs.query[boundaries[row] : boundaries[row + 1]]
        new, total = len(query), past + len(query)
        if new == 0:
            continue
        position = np.arange(total)
        block_id = inputs.block_table[row, torch.from_numpy(position // options.block_size)]
        offset = torch.from_numpy(position % options.block_size)
        key = inputs.key_cache[block_id, offset].transpose(0, 1)[None]
        value = inputs.value_cache[block_id, offset].transpose(0, 1)[None]
        heads = query.reshape(new, options.num_heads, -1).transpose(0, 1)[None]
        mask = torch.ones(new, total, dtype=torch.bool).tril(diagonal=past)
        group = options.num_heads // options.kv_num_heads
        output = scaled_dot_product_attention(
            heads.double(),
            key.double().repeat_interleave(group, 1),
            value.double().repeat_interleave(group, 1),
            attn_mask=mask,
        )
        outputs.append(output[0].transpose(0, 1).flatten(1))
    return torch.cat(outputs)


def expect_dense(options: ProblemOptions, backend: str) -> None:
    problem = random_paged_problem(11, options)
    output = prepare(problem.signature, backend).run(problem.inputs).output
    expect_close(output, dense(problem))


@pytest.mark.parametrize("group", GROUP_SIZES)
@pytest.mark.parametrize("new", [1, 3])
def test_any_number_of_query_heads_shares_a_kv_head(
    host_backend: str, group: int, new: int
) -> None:
    rows = ((33, new), (15, new))
    options = ProblemOptions(num_heads=2 * group, kv_num_heads=2, head_size=16, rows=rows)
    expect_dense(options, host_backend)


@pytest.mark.parametrize("block_size", [16, 32, 64, 128, 256])
def test_any_block_size_at_its_edges(host_backend: str, block_size: int) -> None:
    edge = block_size
    rows = ((edge - 1, 1), (edge - 1, 2), (edge, 1), (edge + 1, 1), (0, edge), (2 * edge - 1, 2))
    options = ProblemOptions(num_heads=2, kv_num_heads=1, rows=rows, block_size=block_size)
    expect_dense(options, host_backend)


@pytest.mark.parametrize("head_size", [8, 16, 24, 40, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_head_size_that_eight_divides(
    host_backend: str, head_size: int, dtype: torch.dtype
) -> None:
    rows = ((20, 1), (0, 17), (5, 3))
    options = ProblemOptions(num_heads=3, kv_num_heads=1, head_size=head_size, rows=rows)
    expect_dense(replace(options, dtype=dtype), host_backend)


@pytest.mark.spec("V63")
@pytest.mark.parametrize("batch_size", [257, 1025])
def test_batches_have_no_limit(host_backend: str, batch_size: int) -> None:
    rows = tuple((index % 35, 1 + (index % 7 == 0)) for index in range(batch_size))
    options = ProblemOptions(num_heads=2, kv_num_heads=1, head_size=8, rows=rows)
    expect_dense(options, host_backend)
