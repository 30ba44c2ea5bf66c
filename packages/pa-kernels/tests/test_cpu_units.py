"""Every instruction-set unit of the compiled CPU backend equals the oracle.

Problems are drawn over features, head groups, sizes and lengths at block edges; `unit` is each unit
that this machine can run, the portable one always among them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pa_kernels import _cpu, reference
from pa_kernels.backends.cpu import CpuBackend
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    random_options,
    random_paged_problem,
)
from pa_spec import PagedAttentionOutputs
from torch import Tensor

UNITS = _cpu.available_units()
DTYPES = st.sampled_from([torch.float32, torch.bfloat16])


def run(problem: PagedProblem, unit: str = "") -> Tensor:
    """Run on the problem's own caches."""
    plan = CpuBackend(unit).prepare(problem.signature)
    query, options = problem.inputs.query, problem.options
    width = options.num_heads * options.head_size
    # An element that nobody writes would fail every comparison.
    output = torch.full((query.shape[0], width), torch.nan, dtype=query.dtype)
    plan.run(problem.inputs, PagedAttentionOutputs(output))
    return output


def expect_oracle(problem: PagedProblem, units: list[str]) -> None:
    """Compare outputs and caches of every unit with the oracle in float64."""
    expected = problem.clone()
    output = reference.run(expected.inputs, expected.attributes, torch.float64).output
    for unit in units:
        own = problem.clone()
        expect_close(run(own, unit), output)
        for name in ("key_cache", "value_cache"):
            expect_close(getattr(own.inputs, name), getattr(expected.inputs, name))


def test_the_portable_unit_is_always_there() -> None:
    assert UNITS[-1] == "generic"


def test_the_fastest_unit_is_taken_when_none_is_named() -> None:
    problem = random_paged_problem(0)
    assert CpuBackend().prepare(problem.signature).unit == UNITS[0]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="no such instruction-set unit here: vax"):
        CpuBackend("vax").prepare(random_paged_problem(0).signature)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**31), dtype=DTYPES, has_positions=st.booleans())
def test_random_problems_give_what_the_oracle_gives(
    seed: int, dtype: torch.dtype, *, has_positions: bool
) -> None:
    options = replace(random_options(seed, dtype), has_query_positions=has_positions)
    problem = random_paged_problem(seed, options)
    if problem.inputs.query.shape[0] > 0:
        expect_oracle(problem, UNITS)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**31),
    dtype=DTYPES,
    past=st.sampled_from([0, 63, 64, 65, 640, 1025, 2100]),
    new=st.sampled_from([1, 2, 3, 64, 129, 200]),
    window=st.sampled_from([0, 64, 65, 1000]),
)
def test_long_contexts_are_split_and_joined(
    seed: int, dtype: torch.dtype, past: int, new: int, window: int
) -> None:
    options = ProblemOptions(
        dtype=dtype,
        num_heads=6,
        kv_num_heads=2,
        head_size=40,
        rows=((past, new), (3, 1)),
        has_sink=seed % 2 == 0,
        window_tokens=window,
    )
    expect_oracle(random_paged_problem(seed, options), UNITS)


@pytest.mark.parametrize("head_size", [8, 16, 40, 64, 72, 96, 112, 128, 192, 256, 512])
@pytest.mark.parametrize("group", [1, 4, 71])
def test_any_head_size_and_group_is_served(head_size: int, group: int) -> None:
    options = ProblemOptions(
        dtype=torch.bfloat16 if group == 4 else torch.float32,
        num_heads=2 * group,
        kv_num_heads=2,
        head_size=head_size,
        rows=((30, 1), (0, 9)),
    )
    expect_oracle(random_paged_problem(head_size, options), UNITS)


@pytest.mark.parametrize("block_size", [16, 32, 128, 256, 512, 1024])
def test_any_block_size_is_served(block_size: int) -> None:
    rows = ((block_size - 1, 2), (2 * block_size, 1), (0, 70))
    options = ProblemOptions(block_size=block_size, rows=rows, num_heads=3, kv_num_heads=1)
    expect_oracle(random_paged_problem(block_size, options), UNITS)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("outside", [-9, 2**31 - 1, None])
def test_blocks_in_the_middle_of_a_context_may_be_unmapped(unit: str, outside: int | None) -> None:
    options = ProblemOptions(rows=((200, 1), (150, 40), (0, 1)), rotary_dim=16)
    problem = random_paged_problem(11, options)
    # None: the first id behind the pool, which a wrong bound would take.
    block_id = problem.inputs.key_cache.shape[0] if outside is None else outside
    for row, columns in ((0, [0, 3, 4, 5, 6, 12]), (1, [2, 8, 9, 11]), (2, [0])):
        problem.inputs.block_table[row, columns] = torch.tensor(block_id, dtype=torch.int32)
    expect_oracle(problem, [unit])


@pytest.mark.parametrize("unit", UNITS)
def test_slots_outside_the_pool_are_not_stored(unit: str) -> None:
    problem = random_paged_problem(
        12, ProblemOptions(rows=((20, 4), (3, 3)), has_slot_mapping=True)
    )
    slots = problem.inputs.slot_mapping
    assert slots is not None
    num_slots = problem.inputs.key_cache.shape[0] * problem.inputs.key_cache.shape[1]
    slots[:4] = torch.tensor([num_slots, 2**31 - 1, -(2**31), -2], dtype=torch.int32)
    expect_oracle(problem, [unit])
