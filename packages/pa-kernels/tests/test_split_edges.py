"""Where work is cut: parts of a context that hold nothing, tiles that some tokens see partly.

Method: rows long enough to be cut into parts and tiles, on every backend and unit; what must come
out is plain without an oracle, or the oracle's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from every_backend import KERNELS, Kernel, each_eligible, in_every_type, int32, with_inputs
from pa_kernels import reference
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

LONG = ProblemOptions(rows=((1500, 1), (300, 2)), num_heads=4, kv_num_heads=2, head_size=64)
FEW = {name: in_every_type(LONG)[name] for name in ("float32", "bfloat16-int8-channel")}


def expect_oracle(problem: PagedProblem, kernel: Kernel) -> None:
    expected = problem.clone()
    wanted = reference.run(expected.inputs, expected.attributes, torch.float64).output
    expect_close(kernel.output(problem.clone()), wanted)


@each_eligible(FEW)
def test_a_long_row_without_any_block_gives_zeros(options: ProblemOptions, kernel: Kernel) -> None:
    problem = random_paged_problem(1, options)
    table = torch.full_like(problem.inputs.block_table, -1)

    output = kernel.output(with_inputs(problem, block_table=table))

    assert output.count_nonzero() == 0


@each_eligible(FEW, oracle=())
@pytest.mark.parametrize("hole", [(0, 60), (30, 200), (0, 93)], ids=str)
def test_parts_without_blocks_weigh_nothing(
    options: ProblemOptions, kernel: Kernel, hole: tuple[int, int]
) -> None:
    problem = random_paged_problem(1, options)
    table = problem.inputs.block_table.clone()
    table[:, hole[0] : hole[1]] = -1

    expect_oracle(with_inputs(problem, block_table=table), kernel)


@cache
def sloping(options: ProblemOptions, slope: float) -> tuple[PagedProblem, Tensor]:
    """Return a problem and its output.

    Every tile has a larger logit than all before it (or none has): channel 0 of the queries is 8
    and that of the keys goes from 0 to the slope. A fall of 200 has no exponential in float32.
    """
    problem = random_paged_problem(1, options)
    inputs, size = problem.inputs, options.block_size
    unit = 1.0 if inputs.k_scale is None else float(inputs.k_scale.flatten()[0])
    for row, past in enumerate(inputs.past_seqlens.tolist()):
        position = torch.arange(past)
        block_id = inputs.block_table[row, position // size].long()
        rising = (slope * position / past / unit)[:, None]
        if inputs.k_scale is not None:
            rising = rising.clamp(-127, 127)
        inputs.key_cache[block_id, position % size, :, 0] = rising.to(inputs.key_cache.dtype)
    assert inputs.key is not None
    inputs.key[:, :: options.head_size] = slope
    inputs.query[:, :: options.head_size] = 8 * options.head_size**0.5
    own = problem.clone()
    return problem, reference.run(own.inputs, own.attributes, torch.float64).output


@each_eligible(FEW, oracle=())
@pytest.mark.parametrize("slope", [1.0, -1.0, -25.0])
@pytest.mark.parametrize("window", [0, 190, 1000])
def test_logits_that_rise_or_fall_along_a_context(
    options: ProblemOptions, kernel: Kernel, slope: float, window: int
) -> None:
    rows = ((1500, 1), (300, 1), (200, 3))

    problem, expected = sloping(replace(options, rows=rows, window_tokens=window), slope)

    expect_close(kernel.output(problem.clone()), expected)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_tile_of_logits_that_are_minus_infinity_weighs_nothing(kernel: Kernel) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((100, 1), (90, 3))))
    inputs, size = problem.inputs, problem.options.head_size
    inputs.query[:, ::size] = 1
    for row in range(2):
        inputs.key_cache[inputs.block_table[row, :5].long(), :, :, 0] = -torch.inf

    expect_oracle(problem, kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_value_that_the_window_of_some_tokens_has_left_reaches_the_others_alone(
    kernel: Kernel,
) -> None:
    # Windows of tokens 70 to 79 begin at 31 to 40, all of them behind the end of the first tile
    # of 64 keys, which everybody sees to its end; position 35 is seen by tokens 70 to 74.
    options = ProblemOptions(rows=((70, 10),), window_tokens=40)
    problem = random_paged_problem(1, options)
    assert problem.inputs.value_cache is not None
    block = int(problem.inputs.block_table[0, 2])
    problem.inputs.value_cache[block, 3] = torch.nan

    output = kernel.output(problem)

    assert output[:5].isnan().all()
    assert output[5:].isfinite().all()


@pytest.mark.spec("V66")
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("positions", [(38, 8, 20), (8, 38, 3), (1000, 5, 0)], ids=str)
def test_positions_of_a_row_may_fall(kernel: Kernel, positions: tuple[int, ...]) -> None:
    options = ProblemOptions(rows=((36, 3), (3, 0)), has_query_positions=True)
    problem = random_paged_problem(1, options)
    problem = with_inputs(problem, query_positions=int32(*positions))

    expect_oracle(problem, kernel)
    # Not drawn with the window, which would have unmapped what later tokens see.
    windowed = replace(problem.attributes, local_window_size=4)
    expect_oracle(replace(problem, attributes=windowed), kernel)
