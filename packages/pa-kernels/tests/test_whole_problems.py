"""Every backend that is eligible equals the oracle, on problems drawn whole.

Features, sizes, types and lengths are drawn together (`pa_kernels.testing.draw_options`), so that
combinations meet which no other test names. Backends come from the table and instruction-set units
from the compiled one: what they learn is tested from then on. The profile `soak` draws many more.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from every_backend import eligible
from hypothesis import given, note, settings
from pa_kernels.testing import ProblemOptions, random_paged_problem
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
        examination.examine(kernel)


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
