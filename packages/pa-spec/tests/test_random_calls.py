"""Two derivations of the same formulas agree on calls that nobody picked.

One goes number by number over lists, the other row by row over arrays. The backends meet the same
calls in integration-tests/test_random_calls_of_backends.py.
"""

from __future__ import annotations

import pytest
from naive_operator import NaiveOperator
from pa_spec import validate
from pa_spec.conformance import CaseStatus, Declaration
from random_drafts import random_problem


@pytest.mark.parametrize("seed", range(60))
def test_arrays_and_single_numbers_agree(seed: int) -> None:
    problem = random_problem(seed)

    assert validate(problem.signature) == ()
    result = problem.examine(NaiveOperator(), Declaration())
    assert result.status is CaseStatus.PASSED, result
