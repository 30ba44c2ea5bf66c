"""The compiled CPU backend reads and writes only what a call owns.

Buffers lie inside larger ones whose margins hold a pattern that must survive, or NaN that must not
reach a result.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels import _cpu, reference
from pa_kernels.backends.cpu import CpuBackend
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    random_options,
    random_paged_problem,
)
from pa_spec import ContractViolation, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor

UNITS = _cpu.available_units()
MARGIN = 256
PATTERN = -77.0


class Guarded:
    """A copy of a tensor between two margins."""

    def __init__(self, tensor: Tensor, margin: float = PATTERN) -> None:
        self._buffer = torch.full((tensor.numel() + 2 * MARGIN,), margin, dtype=tensor.dtype)
        self.view = self._buffer[MARGIN:-MARGIN].view(tensor.shape)
        self.view.copy_(tensor)

    def margins_hold(self) -> bool:
        margins = torch.cat((self._buffer[:MARGIN], self._buffer[-MARGIN:]))
        return bool((margins == PATTERN).all())


def output_of(problem: PagedProblem) -> Tensor:
    options = problem.options
    shape = (problem.inputs.query.shape[0], options.num_heads * options.head_size)
    return torch.full(shape, PATTERN, dtype=options.dtype)


def with_inputs(problem: PagedProblem, **changed: Tensor) -> PagedProblem:
    return replace(problem, inputs=replace(problem.inputs, **changed))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", range(12))
def test_nothing_outside_caches_and_output_is_written(unit: str, seed: int) -> None:
    dtype = (torch.float32, torch.bfloat16)[seed % 2]
    problem = random_paged_problem(
        seed, replace(random_options(seed, dtype), head_size=8 + 8 * seed)
    )
    assert problem.inputs.value_cache is not None
    key_cache, value_cache = (
        Guarded(problem.inputs.key_cache),
        Guarded(problem.inputs.value_cache),
    )
    output = Guarded(output_of(problem))
    own = with_inputs(problem, key_cache=key_cache.view, value_cache=value_cache.view)

    CpuBackend(unit).prepare(own.signature).run(own.inputs, PagedAttentionOutputs(output.view))

    assert key_cache.margins_hold()
    assert value_cache.margins_hold()
    assert output.margins_hold()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("head_size", [8, 24, 64])
def test_nothing_outside_the_tensors_is_read(unit: str, head_size: int) -> None:
    # A value read past an end is NaN, and would make some output NaN.
    options = ProblemOptions(head_size=head_size, rows=((17, 1), (3, 5), (0, 16)), rotary_dim=8)
    problem = random_paged_problem(head_size, options)
    names = ("query", "key", "value", "key_cache", "value_cache", "cos_cache", "sin_cache")
    guarded = {name: Guarded(getattr(problem.inputs, name), torch.nan).view for name in names}
    own = with_inputs(problem, **guarded)
    output = output_of(problem)

    CpuBackend(unit).prepare(own.signature).run(own.inputs, PagedAttentionOutputs(output))

    expect_close(output, reference.run(problem.inputs, problem.attributes).output)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("spoiled", [torch.nan, torch.inf, -torch.inf])
def test_a_later_token_of_the_same_row_never_reaches_an_earlier_one(
    unit: str, spoiled: float
) -> None:
    # Tiles on the diagonal meet values that part of their queries must not see.
    problem = random_paged_problem(4, ProblemOptions(rows=((40, 90),), num_heads=6))
    healthy = output_of(problem)
    plan = CpuBackend(unit).prepare(problem.signature)
    plan.run(problem.clone().inputs, PagedAttentionOutputs(healthy))
    for name in ("key", "value"):
        tensor = getattr(problem.inputs, name).clone()
        tensor[50] = spoiled
        output = output_of(problem)
        plan.run(
            with_inputs(problem.clone(), **{name: tensor}).inputs, PagedAttentionOutputs(output)
        )
        assert torch.equal(output[:50], healthy[:50])
        assert not torch.isfinite(output[50:]).all()


@pytest.mark.parametrize("unit", UNITS)
def test_a_spoiled_value_that_the_window_has_left_reaches_nobody(unit: str) -> None:
    options = ProblemOptions(rows=((70, 30), (70, 1)), window_tokens=20)
    problem = random_paged_problem(9, options)
    boundaries = problem.inputs.block_table
    assert problem.inputs.value_cache is not None
    for row in range(2):
        # Position 48 is outside the window of every query from position 70 on.
        block = int(boundaries[row, 3])
        problem.inputs.key_cache[block, 0] = torch.nan
        problem.inputs.value_cache[block, 0] = torch.nan
    output = output_of(problem)

    CpuBackend(unit).prepare(problem.signature).run(problem.inputs, PagedAttentionOutputs(output))

    assert torch.isfinite(output).all()


Lengths = dict[str, list[int]]
BAD_LENGTHS: list[Lengths] = [
    {"cumulative_sequence_length": [1, 3, 5]},
    {"cumulative_sequence_length": [0, 3, 4]},
    {"cumulative_sequence_length": [0, 6, 5]},
    {"cumulative_sequence_length": [0, -1, 5]},
    {"past_seqlens": [-1, 4]},
    {"past_seqlens": [0, 2**31 - 1]},
    {"past_seqlens": [0, 200]},
]


def untouched(inputs: PagedAttentionInputs[Tensor], before: PagedAttentionInputs[Tensor]) -> bool:
    assert inputs.value_cache is not None
    assert before.value_cache is not None
    return torch.equal(inputs.key_cache.nan_to_num(9), before.key_cache.nan_to_num(9)) and (
        torch.equal(inputs.value_cache.nan_to_num(9), before.value_cache.nan_to_num(9))
    )


@pytest.mark.spec("V65")
@pytest.mark.parametrize("lengths", BAD_LENGTHS, ids=str)
def test_bad_lengths_are_refused_before_the_first_store(lengths: Lengths) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 3), (4, 2))))
    changed = {name: torch.tensor(value, dtype=torch.int32) for name, value in lengths.items()}
    own = with_inputs(problem.clone(), **changed)
    output = output_of(problem)
    plan = CpuBackend().prepare(own.signature)

    with pytest.raises(ContractViolation) as caught:
        plan.run(own.inputs, PagedAttentionOutputs(output))

    assert caught.value.rule_id == "V65"
    assert caught.value.name in {*lengths, "lengths"}
    assert untouched(own.inputs, problem.inputs)
    assert (output == PATTERN).all()


@pytest.mark.spec("V65")
@pytest.mark.parametrize("new", [1, 5])
def test_a_row_may_fill_its_table_and_not_one_token_more(new: int) -> None:
    problem = random_paged_problem(3, ProblemOptions(rows=((0, new), (3, 2))))
    capacity = problem.inputs.block_table.shape[1] * problem.options.block_size
    for past, fits in ((capacity - new, True), (capacity - new + 1, False)):
        lengths = torch.tensor([past, 3], dtype=torch.int32)
        own = with_inputs(problem.clone(), past_seqlens=lengths)
        plan = CpuBackend().prepare(own.signature)
        outputs = PagedAttentionOutputs(output_of(problem))
        if fits:
            plan.run(own.inputs, outputs)
            continue
        with pytest.raises(ContractViolation, match="past_seqlens"):
            plan.run(own.inputs, outputs)
        assert untouched(own.inputs, problem.inputs)


@pytest.mark.spec("V65")
def test_a_rotary_table_that_ends_before_a_position_is_refused() -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((20, 3), (40, 0)), rotary_dim=16))
    assert problem.inputs.cos_cache is not None
    assert problem.inputs.sin_cache is not None
    output = output_of(problem)
    for rows, is_enough in ((22, False), (23, True)):
        own = with_inputs(
            problem.clone(),
            cos_cache=problem.inputs.cos_cache[:rows].clone(),
            sin_cache=problem.inputs.sin_cache[:rows].clone(),
        )
        plan = CpuBackend().prepare(own.signature)
        if is_enough:
            plan.run(own.inputs, PagedAttentionOutputs(output))
            continue
        with pytest.raises(ContractViolation, match="cos_cache"):
            plan.run(own.inputs, PagedAttentionOutputs(output))
        assert untouched(own.inputs, problem.inputs)


@pytest.mark.spec("V66")
@pytest.mark.parametrize("position", [-1, 10**6])
def test_positions_outside_the_rotary_table_are_refused(position: int) -> None:
    problem = random_paged_problem(
        2, ProblemOptions(rows=((5, 3),), rotary_dim=16, has_query_positions=True)
    )
    assert problem.inputs.query_positions is not None
    own = problem.clone()
    assert own.inputs.query_positions is not None
    own.inputs.query_positions[1] = position

    with pytest.raises(ContractViolation):
        CpuBackend().prepare(own.signature).run(
            own.inputs, PagedAttentionOutputs(output_of(problem))
        )
    assert untouched(own.inputs, problem.inputs)


def test_offsets_beyond_32_bits_are_reached() -> None:
    # 2^31 elements and a little: only the pages that the call touches become real memory.
    heads, size, block_size = 8, 128, 256
    blocks = 2**31 // (heads * size * block_size) + 2
    shape = (blocks, block_size, heads, size)
    caches = [torch.empty(shape, dtype=torch.bfloat16) for _ in range(2)]
    tokens = torch.randn(3, heads * size).to(torch.bfloat16)
    small = ProblemOptions(
        dtype=torch.bfloat16,
        num_heads=heads,
        kv_num_heads=heads,
        head_size=size,
        block_size=block_size,
        rows=((0, 3),),
    )
    problem = with_inputs(
        random_paged_problem(0, small),
        key=tokens,
        value=tokens,
        key_cache=caches[0],
        value_cache=caches[1],
        block_table=torch.tensor([[blocks - 1]], dtype=torch.int32),
    )
    output = output_of(problem)

    CpuBackend().prepare(problem.signature).run(problem.inputs, PagedAttentionOutputs(output))

    for cache in caches:
        assert torch.equal(cache[blocks - 1, :3].flatten(1), tokens)
    # The first token sees itself alone.
    assert torch.equal(output[0], tokens[0])
