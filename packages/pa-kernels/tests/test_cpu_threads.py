"""A row's result depends on that row alone: not on threads, and not on its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

import pytest
import torch
from pa_kernels.backends.cpu import CpuBackend
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor

ROWS = ((1500, 1), (0, 300), (70, 5), (900, 1), (0, 0), (33, 2), (6100, 1))


def problem_of(dtype: torch.dtype) -> PagedProblem:
    options = ProblemOptions(
        dtype=dtype,
        num_heads=9,
        kv_num_heads=3,
        head_size=64,
        rows=ROWS,
        rotary_dim=64,
        has_sink=True,
    )
    return random_paged_problem(7, options)


def run(inputs: PagedAttentionInputs[Tensor], problem: PagedProblem) -> Tensor:
    own = replace(problem, inputs=inputs).clone()
    output = torch.empty(inputs.query.shape[0], 9 * 64, dtype=problem.options.dtype)
    CpuBackend().prepare(own.signature).run(own.inputs, PagedAttentionOutputs(output))
    return output


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_number_of_threads_gives_the_same_bits(dtype: torch.dtype) -> None:
    problem = problem_of(dtype)
    results = []
    for count in (1, 2, 3, 5):
        with threads(count):
            results.append(run(problem.inputs, problem))

    for other in results[1:]:
        assert torch.equal(other, results[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("row", [0, 1, 2, 5, 6])
def test_a_row_alone_gives_the_bits_that_it_gives_in_a_batch(row: int, dtype: torch.dtype) -> None:
    problem = problem_of(dtype)
    inputs = problem.inputs
    assert inputs.key is not None
    assert inputs.value is not None
    boundaries = inputs.cumulative_sequence_length.tolist()
    tokens = slice(boundaries[row], boundaries[row + 1])
    alone = replace(
        inputs,
        query=inputs.query[tokens],
        key=inputs.key[tokens],
        value=inputs.value[tokens],
        cumulative_sequence_length=torch.tensor([0, tokens.stop - tokens.start]).int(),
        past_seqlens=inputs.past_seqlens[row : row + 1],
        block_table=inputs.block_table[row : row + 1],
    )

    assert torch.equal(run(alone, problem), run(inputs, problem)[tokens])


def test_calls_from_several_python_threads_do_not_disturb_each_other() -> None:
    problem = problem_of(torch.float32)
    expected = run(problem.inputs, problem)
    results: list[Tensor] = []

    def work() -> None:
        results.extend(run(problem.inputs, problem) for _ in range(3))

    workers = [Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(results) == 9
    for result in results:
        assert torch.equal(result, expected)
