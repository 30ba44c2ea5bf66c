"""Nothing that a mask excludes reaches a result, NaN least of all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels import paged_attention, prepare, reference
from pa_kernels.testing import PagedProblem, ProblemOptions, random_options, random_paged_problem

ROWS = ((20, 3), (0, 18), (33, 1), (16, 16))


def run(problem: PagedProblem, backend: str) -> torch.Tensor:
    return prepare(problem.signature, backend).run(problem.inputs).output


@pytest.mark.parametrize("seed", range(6))
def test_unused_slots_may_hold_nan(host_backend: str, seed: int) -> None:
    problem = random_paged_problem(seed)
    assert problem.inputs.key_cache.isnan().any()

    output = run(problem, host_backend)

    assert not output.isnan().any()


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_nan_in_one_row_stays_in_that_row(host_backend: str, part: str) -> None:
    problem = random_paged_problem(3, ProblemOptions(rows=ROWS, rotary_dim=16, has_qk_norm=True))
    healthy = run(problem.clone(), host_backend)
    poisoned = problem.clone()
    boundaries = poisoned.inputs.cumulative_sequence_length.tolist()
    spoiled = slice(boundaries[1], boundaries[2])
    tensor = getattr(poisoned.inputs, part).clone()
    tensor[spoiled.start + 4] = torch.nan

    output = run(replace(poisoned, inputs=replace(poisoned.inputs, **{part: tensor})), host_backend)

    others = torch.ones(len(output), dtype=torch.bool)
    others[spoiled] = False
    assert torch.equal(output[others], healthy[others])
    # Within the row, tokens before the poisoned one come first in time: they stay healthy too.
    assert torch.equal(output[spoiled][:4], healthy[spoiled][:4])
    assert output[spoiled.start + 4].isnan().any()


def test_infinite_values_reach_only_the_queries_that_see_them() -> None:
    options = ProblemOptions(rows=((0, 6),), num_heads=2, kv_num_heads=1, head_size=8)
    problem = random_paged_problem(1, options)
    assert problem.inputs.value is not None
    problem.inputs.value[3, 2] = torch.inf

    output = reference.run(problem.inputs, problem.attributes).output.reshape(6, 2, 8)

    assert torch.isfinite(output[:3]).all()
    assert (output[3:, :, 2] == torch.inf).all()
    assert torch.isfinite(output[3:, :, 3:]).all()


def test_a_bias_of_minus_infinity_masks_also_behind_a_softcap() -> None:
    problem = random_paged_problem(
        5, ProblemOptions(rows=((4, 3),), has_bias=True, softcap=5.0, qk_output=2)
    )
    assert problem.inputs.attention_bias is not None
    problem.inputs.attention_bias[:] = 0.0
    problem.inputs.attention_bias[..., 1, :] = -torch.inf
    problem.inputs.attention_bias[..., 2, 3] = -torch.inf

    result = paged_attention(problem.inputs, problem.attributes)

    assert result.output_qk is not None
    assert not result.output[1].any()
    assert not result.output_qk[:, 1].any()
    assert not result.output_qk[:, 2, 3].any()
    assert (result.output_qk[:, 2, :3] > 0).all()


@pytest.mark.parametrize("seed", range(8))
def test_metadata_bounds_change_no_result(host_backend: str, seed: int) -> None:
    # The bound of the context is the width of output_qk, which nobody asks for here.
    options = replace(random_options(seed), metadata_entries=0)
    problem = random_paged_problem(seed, options)
    context = int(
        (problem.inputs.past_seqlens + problem.inputs.cumulative_sequence_length.diff()).max()
    )
    expected = run(problem.clone(), host_backend)

    for bounds in ([200, context], [10**6, 10**6, 1], [0, 0, 0], [0, 0]):
        metadata = torch.tensor(bounds, dtype=torch.int32)
        bounded = problem.clone()
        bounded = replace(bounded, inputs=replace(bounded.inputs, attention_metadata=metadata))
        assert torch.equal(run(bounded, host_backend), expected)


def test_a_call_without_tokens_changes_nothing(host_backend: str) -> None:
    problem = random_paged_problem(2, ProblemOptions(rows=((5, 0), (16, 0))))
    before = problem.clone()

    output = run(problem, host_backend)

    assert output.shape == (0, 4 * 32)
    assert torch.equal(
        problem.inputs.key_cache.nan_to_num(9), before.inputs.key_cache.nan_to_num(9)
    )
