"""Products of bfloat16 pairs: what rounding the softmax costs, and what it must not touch.

Where the processor multiplies pairs of bfloat16 numbers, attention over several tokens of a
bfloat16 cache rounds its weights. Queries that the prologue changed are kept in two parts.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from every_backend import KERNELS, Kernel, bits, fill
from pa_kernels import reference
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from torch import Tensor

PLAIN = ProblemOptions(
    dtype=torch.bfloat16,
    num_heads=4,
    kv_num_heads=2,
    head_size=72,
    rows=((1500, 9), (3, 40)),
)
CASES = {
    "queries as they come": PLAIN,
    "rotated queries": replace(PLAIN, rotary_dim=72),
    "normalised queries": replace(PLAIN, has_qk_norm=True),
    "large logits": replace(PLAIN, scale=1.0, rotary_dim=16),
    "window, sink and softcap": replace(PLAIN, window_tokens=700, has_sink=True, softcap=9.0),
    "latent": replace(
        PLAIN,
        num_heads=16,
        kv_num_heads=1,
        head_size=80,
        v_head_size=64,
        rotary_dim=16,
        rotary_offset=64,
        scale=0.2,
    ),
}
HOST = [kernel for kernel in KERNELS if kernel.name.startswith("cpu")]


def exact(problem: PagedProblem) -> Tensor:
    """Return the output in float64 over the caches that a kernel has stored, storing nothing."""
    nothing = torch.full_like(problem.inputs.query[:, 0], -1, dtype=torch.int32)
    inputs = replace(problem.inputs, slot_mapping=nothing)
    return reference.run(inputs, problem.attributes, torch.float64).output


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_values_that_cancel_cost_a_rounding_of_their_size(kernel: Kernel, seed: int) -> None:
    problem = random_paged_problem(seed, replace(PLAIN, rows=((63, 2), (300, 5))))
    assert problem.inputs.value is not None
    assert problem.inputs.value_cache is not None
    for values in (problem.inputs.value, problem.inputs.value_cache.flatten(0, 1)):
        values[0::2], values[1::2] = 1.0, -1.0

    found = kernel.output(problem)

    # A weight is off by 2^-9 of itself at most, and the output is rounded by as much.
    error = (found.double() - exact(problem)).abs()
    assert float(error.max()) <= 2 * 2.0**-9


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_the_largest_error_is_at_most_twice_that_of_rounding_the_output(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(5, options)

    found = kernel.output(problem)

    expected = exact(problem)
    rounding = (expected.to(torch.bfloat16).double() - expected).abs().max()
    assert (found.double() - expected).abs().max() <= 2 * rounding


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("rotary_dim", [0, 72])
@pytest.mark.parametrize("unusable", [torch.nan, torch.inf, -torch.inf])
def test_a_value_that_is_not_finite_reaches_the_tokens_that_see_it_alone(
    kernel: Kernel, rotary_dim: int, unusable: float
) -> None:
    problem = random_paged_problem(6, replace(PLAIN, rotary_dim=rotary_dim))
    clean = kernel.output(problem.clone())
    value = problem.inputs.value
    assert value is not None
    value[9 + 21, 5] = unusable  # of the second row, first head

    spoiled = kernel.output(problem)

    seen = torch.zeros_like(clean, dtype=torch.bool)
    seen[9 + 21 :, [5, 72 + 5]] = True
    assert torch.equal(bits(spoiled[~seen]), bits(clean[~seen]))
    assert not spoiled[seen].isfinite().any()


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("rotary_dim", [0, 16])
def test_an_infinite_key_takes_all_weight_or_none(kernel: Kernel, rotary_dim: int) -> None:
    problem = random_paged_problem(7, replace(PLAIN, rows=((40, 20),), rotary_dim=rotary_dim))
    fill(problem)
    block_id = int(problem.inputs.block_table[0, 1])
    problem.inputs.key_cache[block_id, 3, :, 40] = torch.inf
    sign = problem.inputs.query.view(-1, 4, 72)[:, :, 40] > 0

    found = kernel.output(problem).view(-1, 4, 72)

    # A logit of -inf has weight 0; one of inf leaves no softmax.
    assert found[sign].isnan().all()
    assert found[~sign].isfinite().all()


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("rotary_dim", [0, 72])
def test_slots_that_nobody_sees_change_no_bit(kernel: Kernel, rotary_dim: int) -> None:
    problem = random_paged_problem(8, replace(PLAIN, rows=((37, 6),), rotary_dim=rotary_dim))
    fill(problem)
    other = problem.clone()
    block_id = int(other.inputs.block_table[0, 2])
    assert other.inputs.value_cache is not None
    for cache in (other.inputs.key_cache, other.inputs.value_cache):
        cache[block_id, 43 - 32 :] = torch.nan

    assert torch.equal(bits(kernel.output(problem)), bits(kernel.output(other)))
