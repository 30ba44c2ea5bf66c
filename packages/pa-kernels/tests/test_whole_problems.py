"""Every backend that is eligible equals the oracle, on problems drawn whole.

Features, sizes, types and lengths are drawn together (`pa_kernels.testing.draw_options`), so that
combinations meet which no other test names. Backends come from the table and instruction-set units
from the compiled one: what they learn is tested from then on. The profile `soak` draws many more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, islice, pairwise

import pytest
import torch
from every_backend import eligible
from hypothesis import given, note, settings
from pa_kernels import reference
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    random_paged_problem,
    random_whole_options,
)
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor
from whole_problems import SEEDS, Examination, isolated, whole_options


# Four times as many as of another property, in every profile.
@settings(max_examples=4 * settings().max_examples)
@given(options=whole_options(), seed=SEEDS)
def test_every_eligible_backend_stores_and_computes_what_the_oracle_does(
    options: ProblemOptions, seed: int
) -> None:
    examination = Examination(random_paged_problem(seed, options))

    for kernel in eligible(examination.problem.signature):
        note(kernel.name)
        rounds = kernel.rounds_weights(examination.problem)
        examination.examine(kernel.run, rounds_weights=rounds)


@given(options=whole_options(), seed=SEEDS)
def test_a_row_alone_gives_what_it_gives_in_its_batch(options: ProblemOptions, seed: int) -> None:
    problem = random_paged_problem(seed, options)
    boundaries = problem.inputs.cumulative_sequence_length.tolist()

    # cpu/plan.h promises it to the bit, by the row's own lengths; the oracle's sums are torch's.
    for kernel in eligible(problem.signature):
        if kernel.name == "reference":
            continue
        note(kernel.name)
        together = kernel.output(problem.clone())
        for row, (begin, end) in enumerate(pairwise(boundaries)):
            if begin < end:
                alone = kernel.output(isolated(problem, row).clone())
                assert torch.equal(alone, together[begin:end]), f"row {row}"


Inputs = PagedAttentionInputs[Tensor]
Attributes = PagedAttentionAttributes


@dataclass(frozen=True, slots=True)
class Fault:
    """A slip of an implementation, and the problems in which it has something to spoil."""

    matters: Callable[[PagedProblem], bool]
    slip: Callable[[Inputs, Attributes], tuple[Inputs, Attributes]]

    def run(self, inputs: Inputs, attributes: Attributes) -> PagedAttentionOutputs[Tensor]:
        """Compute as the oracle does, but for the slip."""
        changed, others = self.slip(inputs, attributes)
        result = reference.run(changed, others)
        return replace(result, output=result.output.to(inputs.query.dtype))


def longest(problem: PagedProblem) -> int:
    inputs = problem.inputs
    new = inputs.cumulative_sequence_length.diff()
    return int(((inputs.past_seqlens + new) * (new > 0)).max())


def rolled(scale: Tensor | None) -> Tensor | None:
    return None if scale is None else scale.roll(1, dims=-1)


FAULTS: dict[str, Fault] = {
    "a window of one key more": Fault(
        lambda problem: 0 < problem.options.window_tokens < longest(problem),
        lambda inputs, given: (
            inputs,
            replace(given, local_window_size=given.local_window_size + 1),
        ),
    ),
    "no sink": Fault(
        lambda problem: problem.options.has_sink,
        lambda inputs, given: (replace(inputs, head_sink=None), given),
    ),
    "sinks of the neighbours": Fault(
        lambda problem: problem.options.has_sink and problem.options.num_heads > 1,
        lambda inputs, given: (replace(inputs, head_sink=rolled(inputs.head_sink)), given),
    ),
    "no softcap": Fault(
        lambda problem: problem.options.softcap == 3.0,
        lambda inputs, given: (inputs, replace(given, softcap=0.0)),
    ),
    "the other rotary pairs": Fault(
        lambda problem: problem.options.rotary_dim > 2 and longest(problem) > 1,
        lambda inputs, given: (
            inputs,
            replace(given, rotary_interleaved=1 - given.rotary_interleaved),
        ),
    ),
    "scales of the neighbouring channels": Fault(
        lambda problem: problem.options.value_quant_type == "PER_CHANNEL",
        lambda inputs, given: (replace(inputs, v_scale=rolled(inputs.v_scale)), given),
    ),
    "tokens that are stored in spite of their -1": Fault(
        lambda problem: problem.options.has_slot_mapping,
        lambda inputs, given: (replace(inputs, slot_mapping=None), given),
    ),
    "a past of one key less": Fault(
        lambda problem: int(problem.inputs.past_seqlens.min()) > 0,
        lambda inputs, given: (replace(inputs, past_seqlens=inputs.past_seqlens - 1), given),
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_slip_is_found_in_most_problems_where_it_matters(fault: Fault) -> None:
    drawn = (random_paged_problem(seed, random_whole_options(seed)) for seed in count())
    problems = islice(filter(fault.matters, drawn), 8)

    found = [finds(Examination(problem), fault) for problem in problems]

    assert sum(found) >= 6, found


def finds(examination: Examination, fault: Fault) -> bool:
    try:
        examination.examine(fault.run)
    except AssertionError:
        return True
    return False
