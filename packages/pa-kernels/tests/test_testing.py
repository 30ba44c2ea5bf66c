"""The random problems hold what their description promises; the tolerances can fail."""

from __future__ import annotations

import pytest
import torch
from pa_kernels import prepare, reference
from pa_kernels.testing import (
    TOLERANCES,
    ProblemOptions,
    expect_close,
    random_options,
    random_paged_problem,
)

SEEDS = range(40)


def test_a_seed_gives_the_same_problem_again() -> None:
    left, right = random_paged_problem(3), random_paged_problem(3)

    for (name, one), (_, other) in zip(left.inputs.named(), right.inputs.named(), strict=True):
        assert (one is None) == (other is None), name
        if one is not None and other is not None:
            assert torch.equal(one.nan_to_num(9), other.nan_to_num(9)), name


def test_the_promised_situations_occur() -> None:
    problems = [random_paged_problem(seed) for seed in SEEDS]
    lengths = [
        (problem.inputs.past_seqlens, problem.inputs.cumulative_sequence_length.diff())
        for problem in problems
    ]
    rests = {
        int((past + new).remainder(problem.options.block_size)[row])
        for problem, (past, new) in zip(problems, lengths, strict=True)
        for row in range(len(past))
    }

    assert all((new == 0).any() for _, new in lengths)
    assert {0, 1} <= rests
    assert any((problem.inputs.block_table == -1).all(dim=1).any() for problem in problems)
    assert any((problem.inputs.block_table < -1).any() for problem in problems)
    assert any(
        (problem.inputs.block_table >= problem.inputs.key_cache.shape[0]).any()
        for problem in problems
    )
    assert any(shares_a_block(problem.inputs.block_table) for problem in problems)
    assert all(problem.inputs.key_cache.isnan().any() for problem in problems)


def shares_a_block(table: torch.Tensor) -> bool:
    mapped = table[table >= 0].tolist()
    return len(set(mapped)) < len(mapped)


def test_the_options_of_a_run_of_seeds_cover_every_common_feature() -> None:
    options = [random_options(seed) for seed in SEEDS]
    for name in (
        "is_packed",
        "is_strided",
        "has_qk_norm",
        "has_sink",
        "has_slot_mapping",
        "rotary_interleaved",
        "rotary_dim",
        "softcap",
        "window_tokens",
    ):
        assert len({bool(getattr(each, name)) for each in options}) == 2, name


def test_a_clone_runs_without_touching_the_original() -> None:
    problem = random_paged_problem(2, ProblemOptions(rows=((3, 4),)))
    before = problem.inputs.key_cache.clone()

    reference.run(problem.clone().inputs, problem.attributes)

    assert torch.equal(problem.inputs.key_cache.nan_to_num(9), before.nan_to_num(9))


def test_the_description_names_what_differs_from_the_defaults() -> None:
    problem = random_paged_problem(0, ProblemOptions(rows=((3, 4),), softcap=5.0))
    assert str(problem) == "PagedProblem(rows=((3, 4),), softcap=5.0)"


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_a_tolerance_admits_its_own_rounding_and_nothing_of_double_size(dtype: torch.dtype) -> None:
    expected = torch.linspace(-2, 2, 50, dtype=torch.float64)
    tolerance = TOLERANCES[dtype]
    limit = tolerance.absolute + tolerance.relative * expected.abs()

    expect_close(expected.to(dtype), expected)
    with pytest.raises(AssertionError):
        expect_close(expected + 2 * limit, expected, dtype)


def test_a_nan_where_none_belongs_is_found() -> None:
    with pytest.raises(AssertionError):
        expect_close(torch.tensor([torch.nan]), torch.zeros(1))


@pytest.mark.parametrize("seed", SEEDS[:24])
def test_every_host_backend_is_within_tolerance_of_the_oracle(host_backend: str, seed: int) -> None:
    dtype = (torch.float32, torch.bfloat16)[seed % 2]
    problem = random_paged_problem(seed, random_options(seed, dtype))
    expected = reference.run(problem.clone().inputs, problem.attributes, torch.float64)

    output = prepare(problem.signature, host_backend).run(problem.inputs).output

    expect_close(output, expected.output)
