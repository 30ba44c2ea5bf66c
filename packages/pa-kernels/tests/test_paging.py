"""What only a paged cache has: tables, slots, shared blocks, ragged and large batches.

Method: two spellings of one call give the same bits, within one backend.
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
    with_entries,
    with_inputs,
)
from pa_kernels import prepare, reference
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

ROWS = ((33, 1), (15, 3), (0, 20), (16, 1), (40, 0))
SEPARATE = ProblemOptions(rows=ROWS, rotary_dim=16)
CASES = in_every_type(SEPARATE) | {
    f"latent-{name}": options for name, options in in_every_type(replace(LATENT, rows=ROWS)).items()
}
ORACLE = ("float32", "float32-int8-channel", "latent-bfloat16", "latent-bfloat16-fp8-tensor")


def derived_slots(problem: PagedProblem) -> Tensor:
    """Where the contract puts every token when no slot_mapping is given: [T]."""
    slots = []
    boundaries = problem.inputs.cumulative_sequence_length.tolist()
    for row, past in enumerate(problem.inputs.past_seqlens.tolist()):
        for j in range(boundaries[row + 1] - boundaries[row]):
            column, offset = divmod(past + j, problem.options.block_size)
            block_id = int(problem.inputs.block_table[row, column])
            slots.append(block_id * problem.options.block_size + offset)
    return int32(*slots)


def slot_bits(problem: PagedProblem, name: str, slots: Tensor) -> Tensor:
    cache = getattr(problem.inputs, name)
    return bits(None if cache is None else cache.flatten(0, 1))[slots.long()]


@each_eligible(CASES, ORACLE)
def test_an_explicit_mapping_of_the_derived_slots_changes_nothing(
    options: ProblemOptions, kernel: Kernel
) -> None:
    derived = random_paged_problem(2, options)
    explicit = with_inputs(derived.clone(), slot_mapping=derived_slots(derived))
    before = derived.clone()

    outputs = [kernel.output(problem) for problem in (derived, explicit)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert same_caches(derived, explicit)
    assert not same_caches(derived, before)


@each_eligible(CASES, ORACLE)
def test_tokens_without_a_slot_attend_as_if_another_request_had_stored_them(
    options: ProblemOptions, kernel: Kernel
) -> None:
    stored = random_paged_problem(3, options)
    slots = derived_slots(stored)
    expected = kernel.output(stored)
    # Some of them at the start, in the middle, and the last of all.
    skipped = torch.zeros(len(slots), dtype=torch.bool)
    skipped[[0, 2, 5, 6, 7, 23, -1]] = True
    # The caches hold every token already; those with a slot are stored once more.
    cached = with_inputs(stored.clone(), slot_mapping=slots.where(~skipped, -1))
    for name in ("key_cache", "value_cache"):
        cache = getattr(cached.inputs, name)
        if cache is not None:
            cache.view(torch.uint8).flatten(0, 1)[slots[~skipped].long()] = 0

    output = kernel.output(cached)

    assert torch.equal(bits(output), bits(expected))
    assert same_caches(cached, stored)


@each_eligible(CASES, ORACLE)
def test_tokens_without_a_slot_leave_every_byte_of_the_caches(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(4, options)
    slots = derived_slots(problem)
    everything = with_inputs(problem.clone(), slot_mapping=torch.full_like(slots, -1))
    single = with_inputs(problem.clone(), slot_mapping=torch.full_like(slots, -1))
    assert single.inputs.slot_mapping is not None
    single.inputs.slot_mapping[6] = slots[6]

    for each in (everything, single):
        kernel.output(each)

    assert same_caches(everything, problem)
    others = torch.ones(problem.inputs.key_cache.shape[:2].numel(), dtype=torch.bool)
    others[int(slots[6])] = False
    for name in ("key_cache", "value_cache")[: 1 if options.v_head_size else 2]:
        assert torch.equal(
            slot_bits(single, name, others.nonzero().flatten()),
            slot_bits(problem, name, others.nonzero().flatten()),
        )
        assert not torch.equal(
            slot_bits(single, name, slots[6:7]), slot_bits(problem, name, slots[6:7])
        )


@each_eligible(CASES, ORACLE)
def test_where_blocks_lie_in_the_pool_changes_nothing(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(5, options)
    num_blocks = problem.inputs.key_cache.shape[0]
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(1))
    assert not torch.equal(order, torch.arange(num_blocks))
    table = problem.inputs.block_table
    # Block `order[i]` moves to place i.
    place = order.argsort().int()
    is_block = (table >= 0) & (table < num_blocks)
    moved = with_inputs(
        problem.clone(),
        block_table=place[table.where(is_block, 0).long()].where(is_block, table),
        **{
            name: cache.view(torch.uint8)[order].view(cache.dtype)
            for name in ("key_cache", "value_cache")
            if (cache := getattr(problem.inputs, name)) is not None
        },
    )

    outputs = [kernel.output(each) for each in (problem, moved)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert torch.equal(bits(moved.inputs.key_cache), bits(problem.inputs.key_cache)[order])


@each_eligible(CASES, ORACLE)
def test_rows_that_share_prefix_blocks_equal_rows_with_copies(
    options: ProblemOptions, kernel: Kernel
) -> None:
    rows = ((32, 3), (32, 1), (40, 2))
    copies = random_paged_problem(1, replace(options, rows=rows))
    fill(copies)
    copies = with_inputs(copies, block_table=int32(*range(9)).reshape(3, 3))
    for cache in (copies.inputs.key_cache, copies.inputs.value_cache):
        if cache is not None:
            blocks = cache.view(torch.uint8)
            blocks[0:2] = blocks[3:5] = blocks[6:8]
    table = copies.inputs.block_table.clone()
    table[:2, :2] = table[2, :2]
    shared = with_inputs(copies.clone(), block_table=table)

    outputs = [kernel.output(each) for each in (copies, shared)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert outputs[0].isfinite().all()
    # Blocks 0, 1, 3 and 4 were not read: with other contents the outputs stay.
    fill(shared, seed=1)
    for cache, original in (
        (shared.inputs.key_cache, copies.inputs.key_cache),
        (shared.inputs.value_cache, copies.inputs.value_cache),
    ):
        if cache is not None and original is not None:
            kept = [2, 5, 6, 7, 8]
            cache.view(torch.uint8)[kept] = original.view(torch.uint8)[kept]
    assert torch.equal(bits(kernel.output(shared)), bits(outputs[0]))


@each_eligible(CASES, ORACLE)
@pytest.mark.parametrize("block_id", [-1, -(2**31), None])
def test_ids_outside_the_pool_mask_their_positions(
    options: ProblemOptions, kernel: Kernel, block_id: int | None
) -> None:
    # None: the first id behind the pool, which a wrong bound would take.
    whole = random_paged_problem(6, options)
    outside = whole.inputs.key_cache.shape[0] if block_id is None else block_id
    problem = with_entries(whole.clone(), outside, (0, 1), (2, 1))
    wanted = reference.run(problem.clone().inputs, problem.attributes, torch.float64).output

    output = kernel.output(problem)

    expect_close(output, wanted)
    # Row 0 has lost positions 16 to 31; row 1 nothing.
    complete = kernel.output(whole)
    assert not torch.equal(output[0], complete[0])
    assert torch.equal(bits(output[1:4]), bits(complete[1:4]))


@each_eligible(CASES, ORACLE)
def test_rows_without_tokens_change_nothing(options: ProblemOptions, kernel: Kernel) -> None:
    dense = random_paged_problem(7, replace(options, rows=((33, 1), (15, 3), (0, 20))))
    inputs = dense.inputs
    table = inputs.block_table
    with_empty_rows = with_inputs(
        dense.clone(),
        cumulative_sequence_length=int32(0, 0, 1, 1, 1, 4, 24, 24),
        past_seqlens=int32(5, 33, 0, 40, 15, 0, 33),
        block_table=table[[2, 0, 1, 0, 1, 2, 0]].contiguous(),
    )

    outputs = [kernel.output(each) for each in (dense, with_empty_rows)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert same_caches(dense, with_empty_rows)


@each_eligible(CASES, ORACLE)
def test_a_call_without_tokens_shapes_its_output_and_touches_no_cache(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(8, replace(options, rows=((5, 0), (16, 0))))
    before = problem.clone()
    name = kernel.name.partition("-")[0]

    outputs = prepare(problem.signature, name).run(problem.inputs)

    width = options.num_heads * (options.v_head_size or options.head_size)
    assert outputs.output.shape == (0, width)
    assert outputs.output.dtype == options.dtype
    assert same_caches(problem, before)


def test_a_call_without_tokens_has_no_scores() -> None:
    problem = random_paged_problem(8, ProblemOptions(rows=((5, 0), (16, 0)), qk_output=1))
    columns = problem.inputs.block_table.shape[1] * problem.options.block_size

    outputs = prepare(problem.signature).run(problem.inputs)

    assert outputs.output_qk is not None
    assert outputs.output_qk.shape == (4, 0, columns)


@pytest.mark.spec("V63")
@pytest.mark.parametrize("batch_size", [257, 1025])
@each_eligible(
    {name: CASES[name] for name in ("float32", "bfloat16", "float16-fp8-channel")}, ("float32",)
)
def test_rows_beyond_256_are_served_like_the_first_ones(
    options: ProblemOptions, kernel: Kernel, batch_size: int
) -> None:
    # Every row is one of four, so the oracle is asked for those only.
    kinds = ((20, 1), (3, 2), (0, 5), (16, 1))
    four = random_paged_problem(9, replace(options, rows=kinds))
    batch = (*range(4), *(3 - index % 4 for index in range(batch_size - 4)))
    boundaries = four.inputs.cumulative_sequence_length.tolist()
    tokens = [t for kind in batch for t in range(boundaries[kind], boundaries[kind + 1])]
    many = with_inputs(
        four.clone(),
        **{name: getattr(four.inputs, name)[tokens] for name in ("query", "key", "value")},
        cumulative_sequence_length=int32(0, *(kinds[kind][1] for kind in batch)).cumsum(0).int(),
        past_seqlens=int32(*(kinds[kind][0] for kind in batch)),
        block_table=four.inputs.block_table[list(batch)].contiguous(),
    )
    wanted = reference.run(four.clone().inputs, four.attributes, torch.float64).output

    output = kernel.output(many)

    expect_close(output, wanted[tokens])
    kernel.output(four)
    assert same_caches(many, four)
