"""For tests of any backend: random problems, how close is close enough, golden problems."""

from pa_kernels.testing.operator import conformance_operator
from pa_kernels.testing.options import ProblemOptions, random_options
from pa_kernels.testing.problem import PagedProblem, random_paged_problem
from pa_kernels.testing.tolerance import (
    TOLERANCES,
    Tolerance,
    expect_close,
    expect_rounded,
    expect_stored,
)
from pa_kernels.testing.whole import Choose, draw_options, random_whole_options

__all__ = [
    "TOLERANCES",
    "Choose",
    "PagedProblem",
    "ProblemOptions",
    "Tolerance",
    "conformance_operator",
    "draw_options",
    "expect_close",
    "expect_rounded",
    "expect_stored",
    "random_options",
    "random_paged_problem",
    "random_whole_options",
]
