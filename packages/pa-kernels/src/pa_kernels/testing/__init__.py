"""For tests of any backend: random problems, how close is close enough, golden problems."""

from pa_kernels.testing.operator import conformance_operator
from pa_kernels.testing.options import ProblemOptions, random_options
from pa_kernels.testing.problem import PagedProblem, random_paged_problem
from pa_kernels.testing.tolerance import TOLERANCES, Tolerance, expect_close

__all__ = [
    "TOLERANCES",
    "PagedProblem",
    "ProblemOptions",
    "Tolerance",
    "conformance_operator",
    "expect_close",
    "random_options",
    "random_paged_problem",
]
