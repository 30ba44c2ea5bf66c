"""Examines an operator: every golden problem, and every rule."""

from __future__ import annotations

from pa_spec.conformance.attention import attention_problems
from pa_spec.conformance.call import Operator
from pa_spec.conformance.declaration import Declaration
from pa_spec.conformance.report import ConformanceReport
from pa_spec.conformance.rule import rule_cases
from pa_spec.conformance.slot import quantization_problems, slot_problems
from pa_spec.contract.version import CONTRACT_VERSION


def run(operator: Operator, declaration: Declaration | None = None) -> ConformanceReport:
    """Drive every golden problem and every rule on an implementation; say what came of each.

    operator: takes an OperatorCall, updates its caches in place and returns PagedAttentionOutputs,
    or raises one of the declared refusals before it has changed anything. Whatever else it raises
    counts against it and stops nothing. declaration: None claims the whole contract.
    """
    declaration = declaration or Declaration()
    problems = (*attention_problems(), *slot_problems(), *quantization_problems())
    results = [each.examine(operator, declaration) for each in problems]
    results += [each.examine(operator, declaration) for each in rule_cases()]
    said = "refusals name no rules: only that they happen is compared"
    note = "" if declaration.names_rules else said
    return ConformanceReport(CONTRACT_VERSION, tuple(results), note)
