"""Whole problems for hypothesis, and what an implementation has to give for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from every_backend import bits
from hypothesis import strategies as st
from pa_kernels import reference
from pa_kernels.reference.rows import token_places
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    draw_options,
    expect_close,
    expect_rounded,
    expect_stored,
)
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor

T = TypeVar("T")

Run = Callable[
    [PagedAttentionInputs[Tensor], PagedAttentionAttributes], PagedAttentionOutputs[Tensor]
]
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def whole_options(draw: st.DrawFn) -> ProblemOptions:
    """Options of a whole problem; the simplest ones are those of `ProblemOptions()`."""

    def choose(items: Sequence[T], /) -> T:
        return draw(st.sampled_from(items))

    return draw_options(choose)


class Examination:
    """What an implementation has to give for one problem: caches first, then the output.

    The output is compared with the oracle's over the caches that the implementation itself stored,
    so a code that was rounded the other way is judged once, as a code.
    """

    def __init__(self, problem: PagedProblem) -> None:
        self.problem = problem
        oracle = problem.clone()
        reference.run(oracle.inputs, oracle.attributes, torch.float64)
        self._oracle = oracle.inputs
        slot = token_places(problem.inputs).slot
        self._stored = torch.tensor(sorted({*slot.tolist()} - {-1}), dtype=torch.int64)

    def examine(self, run: Run, *, rounds_weights: bool = False) -> None:
        """Run on caches of its own; raise AssertionError for the first difference.

        rounds_weights: allow what any backend may do to the output, not one rounding alone.
        """
        own = self.problem.clone()
        out = run(own.inputs, own.attributes)
        for name in ("key_cache", "value_cache"):
            self._expect_cache(name, getattr(own.inputs, name))
        storing_nothing = torch.full_like(self.problem.inputs.query[:, 0], -1, dtype=torch.int32)
        again = replace(own.inputs, slot_mapping=storing_nothing)
        expected = reference.run(again, own.attributes, torch.float64)
        expect = expect_close if rounds_weights else expect_rounded
        expect(out.output, expected.output)
        if out.output_qk is not None and expected.output_qk is not None:
            expect_rounded(out.output_qk, expected.output_qk)

    def _expect_cache(self, name: str, found: Tensor | None) -> None:
        if found is None:
            return
        before = _rows_of(getattr(self.problem.inputs, name))
        after, expected = _rows_of(found), _rows_of(getattr(self._oracle, name))
        untouched = torch.ones(len(before), dtype=torch.bool)
        untouched[self._stored] = False
        assert torch.equal(bits(after[untouched]), bits(before[untouched])), name
        after, expected = after[self._stored], expected[self._stored]
        if self._is_copied(name):
            assert torch.equal(bits(after), bits(expected)), name
        else:
            expect_stored(after, expected)

    def _is_copied(self, name: str) -> bool:
        options = self.problem.options
        has_prologue = name == "key_cache" and (options.has_qk_norm or options.rotary_dim > 0)
        return options.cache_dtype is None and not has_prologue


def isolated(problem: PagedProblem, row: int) -> PagedProblem:
    """Return the call of one row alone, over the same pool."""
    inputs = problem.inputs
    begin, end = inputs.cumulative_sequence_length[row : row + 2].tolist()

    def own_tokens(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor[begin:end]

    own = replace(
        inputs,
        query=inputs.query[begin:end],
        key=own_tokens(inputs.key),
        value=own_tokens(inputs.value),
        slot_mapping=own_tokens(inputs.slot_mapping),
        query_positions=own_tokens(inputs.query_positions),
        cumulative_sequence_length=torch.tensor([0, end - begin], dtype=torch.int32),
        past_seqlens=inputs.past_seqlens[row : row + 1],
        block_table=inputs.block_table[row : row + 1],
    )
    return replace(problem, inputs=own)


def _rows_of(cache: Tensor) -> Tensor:
    return cache.flatten(0, 1)
