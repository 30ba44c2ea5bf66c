"""Every backend of this machine on random calls, against formulas evaluated number by number."""

from __future__ import annotations

import pytest
from pa_kernels import explain
from pa_kernels.testing import conformance_operator
from pa_spec.conformance import CaseStatus, Declaration
from random_drafts import random_problem


@pytest.mark.parametrize("seed", range(150))
def test_a_backend_agrees_with_the_formulas(seed: int) -> None:
    problem = random_problem(seed)
    verdicts = explain(problem.signature)
    eligible = [
        each.backend for each in verdicts if each.is_selected or each.reason.startswith("eligible")
    ]

    assert "reference" in eligible
    for backend in eligible:
        result = problem.examine(conformance_operator(backend), Declaration())
        assert result.status is CaseStatus.PASSED, (backend, result)
