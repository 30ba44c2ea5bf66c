"""One token over codes of eight bits: whole numbers of int8, and keys turned on their side.

A processor that multiplies bytes makes whole numbers of a query, relative to its largest element,
and of a tile's weights, relative to the tile's largest.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from every_backend import KERNELS, Kernel, fill
from pa_kernels import reference
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from torch import Tensor

DECODE = ProblemOptions(
    dtype=torch.bfloat16,
    cache_dtype=torch.int8,
    quant_type="PER_TENSOR",
    num_heads=18,
    kv_num_heads=6,
    head_size=72,
    rows=((200, 1), (37, 1)),
)
HOST = [kernel for kernel in KERNELS if kernel.name.startswith("cpu")]


def stored_exactly(problem: PagedProblem) -> Tensor:
    """Return the output in float64 over the caches as they are, storing nothing."""
    nothing = torch.full_like(problem.inputs.query[:, 0], -1, dtype=torch.int32)
    inputs = replace(problem.inputs, slot_mapping=nothing)
    return reference.run(inputs, problem.attributes, torch.float64).output


def with_scales(problem: PagedProblem, key: float, value: float) -> None:
    inputs = problem.inputs
    assert inputs.k_scale is not None
    assert inputs.v_scale is not None
    inputs.k_scale.fill_(key)
    inputs.v_scale.fill_(value)


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("apart", [64, 1024])
@pytest.mark.parametrize("below", [2.0, 7.0, 11.2, 14.0])
def test_small_weights_are_not_lost_beside_large_ones_without_values(
    kernel: Kernel, below: float, apart: int
) -> None:
    keys = 1024
    options = replace(DECODE, rows=((keys - 1, 1),), num_heads=2, kv_num_heads=1, scale=1.0)
    problem = random_paged_problem(0, options)
    inputs = problem.inputs
    assert inputs.value_cache is not None
    assert inputs.key is not None
    assert inputs.value is not None
    with_scales(problem, 1 / 64, 1 / 64)
    inputs.query.zero_()
    # The first head sees all keys alike.
    inputs.query[:, 72 + 5] = below
    inputs.key.zero_()
    inputs.key.view(-1, 72)[:, 5] = -1.0
    inputs.value.fill_(1.0)
    inputs.key_cache.zero_()
    inputs.key_cache[..., 5] = -64
    inputs.value_cache.fill_(64)
    # A large key has a logit of 0 and a value of 0, all others have -below and 1.
    large = range(0, keys, apart)
    for position in large:
        block_id = int(inputs.block_table[0, position // inputs.key_cache.shape[1]])
        slot = position % inputs.key_cache.shape[1]
        inputs.key_cache[block_id, slot] = 0
        inputs.value_cache[block_id, slot] = 0

    found = kernel.output(problem).view(2, 72).double()

    small = (keys - len(large)) * math.exp(-float(inputs.query[0, 72 + 5]))
    expected = torch.tensor([1 - len(large) / keys, small / (len(large) + small)])
    error = (found - expected[:, None]).abs().amax(1) / expected
    assert (error <= 2.0**-7).all()


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("softcap", [0.0, 2.0, 300.0])
@pytest.mark.parametrize("kind", ["query", "scale of a channel"])
@pytest.mark.parametrize("ratio", [1.0, 100.0, 1e3, 1e4, 6e4])
def test_a_large_channel_that_all_keys_share_hides_no_other(
    kernel: Kernel, ratio: float, kind: str, softcap: float
) -> None:
    is_scale = kind != "query"
    options = replace(
        DECODE,
        head_size=128,
        num_heads=4,
        kv_num_heads=2,
        rows=((100, 1),),
        softcap=softcap,
        scale=0.1,
        quant_type="PER_CHANNEL" if is_scale else "PER_TENSOR",
        has_sink=softcap == 2.0,
    )
    problem = random_paged_problem(7, options)
    fill(problem)
    inputs = problem.inputs
    assert inputs.k_scale is not None
    assert inputs.key is not None
    inputs.key.view(-1, 128)[:, 17] = 0.0
    inputs.key_cache[..., 17] = 0
    with_scales(problem, 1 / 50, 1 / 64)
    if is_scale:
        inputs.k_scale.view(-1, 128)[:, 17] *= ratio
    else:
        inputs.query.view(-1, 128)[:, 17] *= ratio

    found = kernel.output(problem).double()

    expected = stored_exactly(problem)
    rounding = (expected.to(torch.bfloat16).double() - expected).abs().max()
    assert (found - expected).abs().max() <= 2 * rounding


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("rotary_dim", [0, 16])
@pytest.mark.parametrize("number", [1e-38, 3e-20, 2e29, 4e33, 0.0])
def test_a_query_of_any_size_counts_and_leaves_its_neighbours_alone(
    kernel: Kernel, rotary_dim: int, number: float
) -> None:
    options = replace(DECODE, rotary_dim=rotary_dim)
    problem = random_paged_problem(1, options)
    fill(problem)
    heads = problem.inputs.query.view(-1, 18, 72)
    heads[0, 1] = torch.tensor([number, -number, 0.0] * 24).to(torch.bfloat16)

    found = kernel.output(problem).double()

    expected = stored_exactly(problem)
    assert (found - expected).abs().max() <= 2 * 2.0**-8 * expected.abs().max()


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("softcap", [0.0, 20.0])
@pytest.mark.parametrize("number", [torch.inf, -torch.inf, torch.nan])
def test_a_query_that_is_no_number_spoils_its_own_head_alone(
    kernel: Kernel, softcap: float, number: float
) -> None:
    problem = random_paged_problem(2, replace(DECODE, softcap=softcap))
    fill(problem)
    clean = kernel.output(problem).double().view(-1, 18, 72)
    problem.inputs.query.view(-1, 18, 72)[1, 3, 40] = number

    found = kernel.output(problem).double().view(-1, 18, 72)

    expected = stored_exactly(problem).view(-1, 18, 72)
    assert torch.equal(found.isnan(), expected.isnan())
    bound = 2 * 2.0**-8 * clean.abs().max()
    assert (found - expected)[expected.isfinite()].abs().max() <= bound
    others = torch.ones(clean.shape[:2], dtype=torch.bool)
    others[1, 3] = False
    assert (found - clean)[others].abs().max() <= bound


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("cache_dtype", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("channel", [0, 3, 16, 17, 35, 63, 64, 71])
def test_each_key_and_channel_meets_its_own(
    kernel: Kernel, channel: int, cache_dtype: torch.dtype
) -> None:
    options = replace(DECODE, rows=((30, 1),), scale=0.28, cache_dtype=cache_dtype)
    problem = random_paged_problem(3, options)
    inputs = problem.inputs
    assert inputs.key is not None
    assert inputs.value_cache is not None
    with_scales(problem, 1.0, 1.0)
    inputs.key.zero_()
    inputs.query.zero_()
    inputs.query.view(-1, 18, 72)[..., channel] = 1.0
    block_id = int(inputs.block_table[0, 0])
    values = torch.arange(72) % 13
    # One key stands out, by this channel alone (e^27); its values name their channels.
    for key in range(16):
        inputs.key_cache.copy_(torch.zeros(inputs.key_cache.shape))
        inputs.value_cache.copy_(torch.full(inputs.value_cache.shape, -3.0))
        inputs.key_cache[block_id, key, :, channel] = torch.tensor(96.0).to(cache_dtype)
        inputs.value_cache[block_id, key] = values.to(cache_dtype)

        found = kernel.output(problem).view(18, 72)

        assert (found - values).abs().max() < 1e-9


@pytest.mark.parametrize("kernel", HOST, ids=str)
def test_the_largest_numbers_of_wide_heads_do_not_overflow(kernel: Kernel) -> None:
    options = replace(DECODE, head_size=576, num_heads=2, kv_num_heads=1, rows=((299, 1),))
    problem = random_paged_problem(4, replace(options, scale=2.0**-14))
    inputs = problem.inputs
    assert inputs.key is not None
    assert inputs.value is not None
    assert inputs.value_cache is not None
    with_scales(problem, 1.0, 1.0)
    for tensor, number in ((inputs.key, -128.0), (inputs.value, -128.0), (inputs.query, -255.0)):
        tensor.fill_(number)
    for cache in (inputs.key_cache, inputs.value_cache):
        cache.fill_(-128)
    first = int(inputs.block_table[0, 0])
    inputs.key_cache[first, 0] = 127
    inputs.value_cache[first, 0] = 127

    found = kernel.output(problem)

    # 576 * 255 * 128 / 2^14 is above the others' logits by 2,290: they take all the weight.
    assert bool((found == -128.0).all())


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("power", [0.25, 0.5, 0.75, 1.5, 2.5, 6.5])
def test_a_weight_is_the_power_of_its_logit(kernel: Kernel, power: float) -> None:
    problem = random_paged_problem(5, replace(DECODE, rows=((1, 1),), scale=1.0))
    inputs = problem.inputs
    assert inputs.key is not None
    assert inputs.value is not None
    assert inputs.value_cache is not None
    with_scales(problem, power * math.log(2) / 64, 1 / 64)
    # Two keys: a logit of -power in powers of two and a value of 1 beside 0 and 0.
    inputs.query.zero_()
    inputs.query.view(-1, 72)[:, 9] = 1
    inputs.key.zero_()
    inputs.value.zero_()
    inputs.key_cache.zero_()
    inputs.key_cache[..., 9] = -64
    inputs.value_cache.fill_(64)

    found = kernel.output(problem).double()

    expected = 2.0**-power / (1 + 2.0**-power)
    assert (found - expected).abs().max() <= 2.0**-9 * expected + 2.0**-15


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize("window_tokens", [1, 2, 5, 16, 27, 64, 65, 130])
def test_logits_far_apart_at_every_edge_of_a_window(kernel: Kernel, window_tokens: int) -> None:
    options = replace(DECODE, window_tokens=window_tokens, rows=((200, 1), (37, 1), (92, 1)))
    problem = random_paged_problem(6, replace(options, scale=0.5))
    fill(problem)
    # Each head has a size of its own, up to logits of about 50.
    heads = problem.inputs.query.view(-1, 18, 72)
    heads *= torch.logspace(-2, 0, 18).to(torch.bfloat16)[:, None]

    found = kernel.output(problem).double()

    expected = stored_exactly(problem)
    assert (found - expected).abs().max() <= 2 * 2.0**-8 * expected.abs().max()


@pytest.mark.parametrize("kernel", HOST, ids=str)
@pytest.mark.parametrize(
    ("cache_dtype", "heads", "head_size"),
    [
        (torch.int8, (320, 40), 16),
        (torch.int8, (32, 32), 288),
        (torch.float8_e4m3fn, (64, 8), 8),
        (torch.float8_e4m3fn, (32, 32), 288),
    ],
)
def test_many_and_wide_heads(
    kernel: Kernel, cache_dtype: torch.dtype, heads: tuple[int, int], head_size: int
) -> None:
    options = replace(
        DECODE,
        cache_dtype=cache_dtype,
        num_heads=heads[0],
        kv_num_heads=heads[1],
        head_size=head_size,
        rows=((75, 1), (20, 1)),
    )
    problem = random_paged_problem(8, options)

    found = kernel.output(problem).double()

    expected = stored_exactly(problem)
    rounding = (expected.to(torch.bfloat16).double() - expected).abs().max()
    assert (found - expected).abs().max() <= 2 * rounding
