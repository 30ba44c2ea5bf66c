"""query_positions, attention_bias with every broadcast, and output_qk before and after softmax.

Other backends than the oracle take these tests as soon as they serve the feature.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    fill,
    in_every_type,
    int32,
    same_caches,
    with_inputs,
)
from pa_kernels import prepare
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from pa_spec import ContractViolation, ElementType
from torch import Tensor

ROWS = ((33, 3), (15, 1), (0, 20), (16, 0))
PLAIN = ProblemOptions(rows=ROWS, rotary_dim=16)
POSITIONS = in_every_type(replace(PLAIN, window_tokens=25)) | {
    "latent": replace(LATENT, rows=ROWS),
    "no-rotation": ProblemOptions(rows=ROWS),
}
ORACLE = ("float32", "float32-int8-channel", "latent", "no-rotation")


def positions_of_slots(problem: PagedProblem) -> Tensor:
    assert problem.options.rows is not None
    return int32(*(past + j for past, new in problem.options.rows for j in range(new)))


@each_eligible(POSITIONS, ORACLE)
def test_positions_that_are_those_of_the_slots_change_nothing(
    options: ProblemOptions, kernel: Kernel
) -> None:
    absent = random_paged_problem(1, options)
    given = with_inputs(absent.clone(), query_positions=positions_of_slots(absent))

    outputs = [kernel.output(each) for each in (absent, given)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert same_caches(absent, given)


@each_eligible({"float32": PLAIN, "bfloat16": replace(PLAIN, dtype=torch.bfloat16)})
def test_drafts_at_one_position_see_the_same_keys(options: ProblemOptions, kernel: Kernel) -> None:
    # Three tokens of row 0 stand at position 33 with one query: each sees keys 0 to 33, of which
    # 33 is the first draft's. Their slots stay 33, 34 and 35.
    problem = random_paged_problem(2, options)
    where = positions_of_slots(problem)
    where[:3] = 33
    query = problem.inputs.query.clone()
    query[1:3] = query[0]
    drafts = with_inputs(problem.clone(), query=query, query_positions=where)
    plain = with_inputs(problem.clone(), query=query)

    found, expected = kernel.output(drafts), kernel.output(plain)

    # Equal rows of one tile: the same keys, in the same order.
    expect_close(found[0], expected[0].double())
    expect_close(found[1], found[0].double())
    expect_close(found[2], found[0].double())
    assert torch.equal(bits(found[3:]), bits(expected[3:]))
    assert not torch.allclose(expected[2].double(), expected[0].double(), atol=0.05)
    block_id = int(problem.inputs.block_table[0, 2])
    stored = drafts.inputs.key_cache[block_id, 1:4].double()
    assert stored.isfinite().all()
    assert not torch.equal(stored[1], stored[2])


BATCH, HEADS, QUERIES, KEYS = len(ROWS), 4, 20, 36
SHAPES = [(b, h, QUERIES, KEYS) for b in (1, BATCH) for h in (1, HEADS)]
BIASED = {
    "float32": ProblemOptions(rows=ROWS, has_bias=True),
    "softcap-window-sink": ProblemOptions(
        rows=ROWS, has_bias=True, softcap=5.0, window_tokens=18, has_sink=True
    ),
    "bfloat16": ProblemOptions(rows=ROWS, has_bias=True, dtype=torch.bfloat16),
    "float16-int8": ProblemOptions(
        rows=ROWS,
        has_bias=True,
        dtype=torch.float16,
        cache_dtype=torch.int8,
        quant_type="PER_CHANNEL",
    ),
    "latent": replace(LATENT, rows=ROWS, has_bias=True, num_heads=HEADS),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@each_eligible(BIASED)
def test_a_bias_is_spread_over_rows_and_heads(
    options: ProblemOptions, kernel: Kernel, shape: tuple[int, ...]
) -> None:
    problem = random_paged_problem(3, options)
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(4)).to(options.dtype)
    spread = bias.expand(BATCH, HEADS, -1, -1).contiguous()

    outputs = [
        kernel.output(with_inputs(problem.clone(), attention_bias=each)) for each in (bias, spread)
    ]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    # Every row and head has entries of its own: exchanged ones are seen.
    other = spread.roll(1, 0) if shape[0] > 1 else spread.roll(1, 1)
    if shape[:2] != (1, 1):
        changed = kernel.output(with_inputs(problem.clone(), attention_bias=other))
        assert not torch.allclose(changed.double(), outputs[0].double(), atol=0.05)


@each_eligible(BIASED)
def test_a_bias_of_zeros_is_none_and_room_behind_the_batch_is_not_read(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(5, options)
    zeros = torch.zeros(BATCH, HEADS, QUERIES + 3, KEYS + 5, dtype=options.dtype)
    zeros[:, :, QUERIES:] = torch.nan
    zeros[..., KEYS:] = torch.nan
    bare = with_inputs(problem.clone(), attention_bias=None)
    biased = with_inputs(problem.clone(), attention_bias=zeros)

    outputs = [kernel.output(each) for each in (bare, biased)]

    expect_close(outputs[0], outputs[1].double())


@each_eligible(BIASED)
def test_a_bias_of_minus_infinity_masks_a_key(options: ProblemOptions, kernel: Kernel) -> None:
    # A key that is masked for everybody may hold anything at all.
    problem = random_paged_problem(6, replace(options, rows=((33, 1),)))
    fill(problem)
    bias = torch.zeros(1, 1, 1, KEYS, dtype=options.dtype)
    bias[..., 20] = -torch.inf
    masked = with_inputs(problem.clone(), attention_bias=bias)
    block_id, offset = int(problem.inputs.block_table[0, 1]), 4
    changed = masked.clone()
    for cache in (changed.inputs.key_cache, changed.inputs.value_cache):
        if cache is not None:
            cache.view(torch.uint8)[block_id, offset] ^= 1

    outputs = [kernel.output(each) for each in (masked, changed)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))


SCORED = {
    "plain": ProblemOptions(rows=ROWS),
    "softcap-window-sink": ProblemOptions(
        rows=ROWS, softcap=5.0, window_tokens=18, has_sink=True, has_bias=True
    ),
    "bfloat16": ProblemOptions(rows=ROWS, dtype=torch.bfloat16),
    "int8": ProblemOptions(rows=ROWS, cache_dtype=torch.int8, quant_type="PER_CHANNEL"),
    "latent": replace(LATENT, rows=ROWS),
}


@each_eligible({name: replace(options, qk_output=1) for name, options in SCORED.items()})
def test_probabilities_are_the_softmax_of_the_scores_and_weigh_the_values(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(7, options)
    attributes = replace(options.attributes, qk_output=2)

    logits = kernel.run(problem.clone().inputs, options.attributes).output_qk
    result = kernel.run(problem.inputs, attributes)

    assert logits is not None
    assert result.output_qk is not None
    total = logits.double().exp().sum(-1, keepdim=True)
    if problem.inputs.head_sink is not None:
        total = total + problem.inputs.head_sink.double().exp()[:, None, None]
    expected = logits.double().exp() / total
    expect_close(result.output_qk, expected, options.dtype)
    # Token 0 of row 0: probabilities times what its 34 positions hold give the output.
    keys = torch.arange(34)
    block_id = problem.inputs.block_table[0, keys // 16].long().clamp(min=0)
    cache = problem.inputs.value_cache
    scale = problem.inputs.v_scale
    if cache is None:
        cache, scale = problem.inputs.key_cache, problem.inputs.k_scale
    values = cache[block_id, keys % 16].double() * (1 if scale is None else scale.double()[:, 0])
    values = values[..., : options.v_head_size or options.head_size].nan_to_num()
    group = options.num_heads // options.kv_num_heads
    weighed = torch.einsum(
        "hm,mhd->hd", result.output_qk[:, 0, :34].double(), values.repeat_interleave(group, 1)
    )
    expect_close(result.output[0], weighed.flatten(), options.dtype)


@each_eligible({name: replace(options, qk_output=1) for name, options in SCORED.items()})
def test_asking_for_scores_changes_no_bit_of_the_output(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(8, options)
    silent = replace(problem.clone(), attributes=replace(options.attributes, qk_output=0))

    outputs = [kernel.output(each) for each in (problem, silent)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert same_caches(problem, silent)


@pytest.mark.spec("V69")
@pytest.mark.parametrize("selected", [0, 1, 2])
def test_scores_come_exactly_when_they_are_asked_for(selected: int) -> None:
    signature = random_paged_problem(9, ProblemOptions(rows=ROWS, qk_output=selected)).signature
    opposite = None if selected else ElementType.FLOAT32

    assert (prepare(signature).signature.output_qk_type is not None) is (selected > 0)
    with pytest.raises(ContractViolation) as found:
        prepare(replace(signature, output_qk_type=opposite))

    assert found.value.rule_id == "V69"
