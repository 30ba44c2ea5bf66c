"""The random problems hold what their description promises; the tolerances can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from pa_kernels import reference
from pa_kernels.testing import (
    TOLERANCES,
    ProblemOptions,
    expect_close,
    expect_rounded,
    expect_stored,
    random_options,
    random_paged_problem,
    random_whole_options,
)
from pa_spec import validate

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_output_is_rounded_once_and_a_cache_may_round_the_other_way(dtype: torch.dtype) -> None:
    exact = torch.linspace(-3, 3, 101, dtype=torch.float64)
    step = torch.finfo(dtype).eps * 2 + 2e-4

    expect_rounded(exact.to(dtype), exact)
    with pytest.raises(AssertionError):
        expect_rounded((exact + step).to(dtype), exact)

    stored = exact.to(dtype)
    expect_stored(stored.nextafter(torch.tensor(9.0, dtype=dtype)), stored)
    with pytest.raises(AssertionError):
        expect_stored((exact + 2 * step).to(dtype), stored)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_codes_may_be_one_step_apart_and_rarely(dtype: torch.dtype) -> None:
    codes = torch.arange(-100, 100, dtype=torch.int8).repeat(40).view(dtype)
    expect_stored(codes, codes.clone())
    for count, steps, is_allowed in ((8, 1, True), (10, 1, False), (1, 2, False)):
        other = codes.clone().view(torch.int8)
        other[150 : 150 + count] += steps
        if is_allowed:
            expect_stored(other.view(dtype), codes)
        else:
            with pytest.raises(AssertionError, match="codes"):
                expect_stored(other.view(dtype), codes)


def test_both_zeros_of_an_eight_bit_float_are_one_code_and_signs_are_far_apart() -> None:
    zeros, ones = torch.tensor([0.0, -0.0]), torch.tensor([1.0, -1.0])
    float8 = torch.float8_e4m3fn
    expect_stored(zeros.to(float8), zeros.flip(0).to(float8))
    with pytest.raises(AssertionError, match="112 steps apart"):
        expect_stored(ones.to(float8), ones.flip(0).to(float8))


def test_whole_problems_are_legal_and_of_every_kind() -> None:
    drawn = [random_whole_options(seed) for seed in range(400)]

    for seed, options in enumerate(drawn[:80]):
        assert validate(random_paged_problem(seed, options).signature) == (), options
    for name, values in KINDS.items():
        assert {getattr(each, name) for each in drawn} >= values, name
    rows = [row for each in drawn for row in each.rows or ()]
    windowed = [each for each in drawn if each.window_tokens > 2]
    totals = {past + new - each.window_tokens for each in windowed for past, new in each.rows or ()}
    assert {-1, 0, 1} <= totals
    assert any(past >= 2000 for past, _ in rows)
    assert any(new == 0 for _, new in rows)
    assert any(each.quant_type != each.value_quant_type for each in drawn if not each.is_latent)
    assert any(0 < each.rotary_offset + each.rotary_dim < each.head_size for each in drawn)


KINDS: dict[str, set[Any]] = {
    "dtype": {torch.float32, torch.bfloat16, torch.float16},
    "cache_dtype": {None, torch.int8, torch.float8_e4m3fn},
    "head_size": {8, 24, 40, 72, 128, 256, 576},
    "block_size": {16, 32, 64, 128, 256, 512},
    "window_tokens": {0, 1, 5000},
    "metadata_entries": {0, 2, 3},
    "qk_output": {0, 1, 2},
    "is_latent": {False, True},
    "is_packed": {False, True},
    "is_strided": {False, True},
    "rotary_interleaved": {False, True},
    "has_qk_norm": {False, True},
    "has_sink": {False, True},
    "has_slot_mapping": {False, True},
    "has_query_positions": {False, True},
    "has_bias": {False, True},
    "has_padding_row": {False, True},
    "has_holes": {False, True},
}


def test_ratios_go_from_one_to_seventy_one() -> None:
    drawn = [random_whole_options(seed) for seed in range(400)]

    assert {1, 3, 5, 7, 71} <= {each.num_heads // each.kv_num_heads for each in drawn}


def test_holes_unmap_blocks_before_the_last_one() -> None:
    options = ProblemOptions(rows=((300, 1), (299, 2)), has_holes=True)
    tables = [random_paged_problem(seed, options).inputs.block_table for seed in range(4)]

    blocks = random_paged_problem(0, options).inputs.key_cache.shape[0]
    assert all(((each[:, :18] < 0) | (each[:, :18] >= blocks)).any() for each in tables)
    assert all((each[:, 18] >= 0).all() for each in tables)


def test_logits_are_large_enough_to_tell_keys_apart() -> None:
    spread = []
    for seed in range(60):
        options = replace(random_whole_options(seed), qk_output=1, softcap=0.0, has_bias=False)
        problem = random_paged_problem(seed, options)
        scores = reference.run(problem.inputs, problem.attributes).output_qk
        assert scores is not None
        seen = scores[scores.isfinite()]
        if seen.numel() > 500:
            spread.append(float(seen.std()))

    assert len(spread) > 20
    assert min(spread) > 0.7
    assert max(spread) < 4.5
