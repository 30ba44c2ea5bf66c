"""Every backend that is eligible equals the oracle, on problems drawn whole.

Features, sizes, types and lengths are drawn together (`pa_kernels.testing.draw_options`), so that
combinations meet which no other test names. Backends come from the table and instruction-set units
from the compiled one: what they learn is tested from then on. The profile `soak` draws many more.
"""

from __future__ import annotations

import torch
from hypothesis import given, note
from pa_kernels.testing import (
    ProblemOptions,
    random_paged_problem,
)
from whole_problems import (
    SEEDS,
    Examination,
    empty_outputs,
    implementations,
    isolated,
    units,
    whole_options,
)


@given(options=whole_options(), seed=SEEDS)
def test_every_eligible_backend_stores_and_computes_what_the_oracle_does(
    options: ProblemOptions, seed: int
) -> None:
    examination = Examination(random_paged_problem(seed, options))

    for implementation in implementations(examination.problem.signature):
        note(implementation.name)
        examination.examine(implementation)


@given(options=whole_options(), seed=SEEDS)
def test_a_row_alone_gives_what_it_gives_in_its_batch(options: ProblemOptions, seed: int) -> None:
    problem = random_paged_problem(seed, options)
    boundaries = problem.inputs.cumulative_sequence_length.tolist()

    for unit in units(problem.signature):
        note(unit.name)
        together = empty_outputs(problem)
        unit.run(problem.clone().inputs, together)
        for row in range(len(boundaries) - 1):
            alone = isolated(problem, row).clone()
            out = empty_outputs(alone)
            for same in units(alone.signature):
                if same.name == unit.name:
                    same.run(alone.inputs, out)
            tokens = slice(boundaries[row], boundaries[row + 1])
            assert torch.equal(out.output, together.output[tokens]), f"row {row}"
