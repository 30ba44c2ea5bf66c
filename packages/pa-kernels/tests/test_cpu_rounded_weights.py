"""Products of bfloat16 pairs: what rounding the softmax costs, and what it must not touch.

Where the processor multiplies pairs of bfloat16 numbers, attention over several tokens of a
bfloat16 cache rounds its weights, and so does that of one token over codes of eight bits. Queries
that the prologue or scales of channels changed are kept in two parts.
"""

from __future__ import annotations

import math
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
CODES = replace(PLAIN, rows=((1500, 1), (700, 1), (16, 1)), quant_type="PER_CHANNEL", scale=0.7)
WHOLE = replace(CODES, quant_type="PER_TENSOR")
CASES |= {
    f"{kind} {cache}".replace("torch.", ""): replace(options, cache_dtype=cache)
    for cache in (torch.int8, torch.float8_e4m3fn)
    for kind, options in {
        "scales of channels": CODES,
        "rotated": replace(WHOLE, rotary_dim=72),
        "as they come": WHOLE,
        "normalised": replace(WHOLE, has_qk_norm=True),
    }.items()
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

    # A weight is off by 2^-8 of itself at most, rarely so and in both directions, and the output is
    # rounded by 2^-9.
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
@pytest.mark.parametrize("cache_dtype", [None, torch.int8, torch.float8_e4m3fn])
def test_weights_sum_to_one_as_they_are_used(
    kernel: Kernel, cache_dtype: torch.dtype | None
) -> None:
    is_quantized = cache_dtype is not None
    # One logit of 0 and many of ln w, where w is rounded down by nearly 2^-8 of itself to 1/2.
    weight = 0.5 * (1 + 0.99 * 2.0**-8)
    options = replace(
        PLAIN,
        rows=((62, 1 if is_quantized else 2),),
        cache_dtype=cache_dtype,
        quant_type="PER_TENSOR" if is_quantized else "NONE",
        scale=-math.log(weight),
    )
    problem = random_paged_problem(0, options)
    inputs = problem.inputs
    assert inputs.key is not None
    assert inputs.value is not None
    assert inputs.value_cache is not None
    inputs.query.zero_()
    inputs.query.view(-1, 72)[:, 0] = 1
    for keys in (inputs.key.view(-1, 72), inputs.key_cache.view(-1, 72)):
        keys.copy_(torch.zeros(keys.shape))
        keys[:, 0] = torch.tensor(-1.0).to(keys.dtype)
    inputs.key_cache[inputs.block_table[0, 0], 0] = 0
    inputs.value.fill_(1.0)
    inputs.value_cache.copy_(torch.ones(inputs.value_cache.shape))
    for scale in (inputs.k_scale, inputs.v_scale):
        if scale is not None:
            scale.fill_(1.0)

    # The sum of the weights that were not rounded is larger by nearly 2^-8: a value of 1 - 2^-8.
    assert bool((kernel.output(problem) == 1.0).all())


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
