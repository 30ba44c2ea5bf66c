"""For tests of any backend: random problems, and how close is close enough."""

from pa_kernels.testing.options import ProblemOptions, random_options
from pa_kernels.testing.problem import PagedProblem, random_paged_problem
from pa_kernels.testing.tolerance import TOLERANCES, Tolerance, expect_close

__all__ = [
    "TOLERANCES",
    "PagedProblem",
    "ProblemOptions",
    "Tolerance",
    "expect_close",
    "random_options",
    "random_paged_problem",
]
