"""The page about findings: what `pa-spec check` reports beside the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pa_spec.contract import Decider, FindingKind, RuleStatus, Severity, finding_kinds, rules
from pa_spec.reference.markdown import code, table

_WEIGHTS: Mapping[Severity, str] = {
    Severity.UNREADABLE: "could not be read, so it was not checked (exit status 2)",
    Severity.VIOLATION: "will fail, or give wrong text (exit status 1)",
    Severity.WARNING: "may; `--strict` counts it as a violation",
    Severity.NOTE: "worth knowing",
}


def finding_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield (
        "A finding reads `<place>: <name>: expected <expected>, got <actual> (<id>)`. Words in "
        "braces are filled from what was checked. A broken rule is a violation and has the rule's "
        "id; the rules that a model's files decide are listed last."
    )
    yield table(("severity", "meaning"), ((each.value, _WEIGHTS[each]) for each in Severity))
    for area in dict.fromkeys(row.area for row in finding_kinds().values()):
        yield f"## {area.capitalize()}"
        yield kind_table(area)
    yield "## Rules of model files"
    yield table(
        ("rule", "violated when"),
        (
            (row.id, row.condition)
            for row in rules().values()
            if row.decided_by is Decider.CHECKER and row.status is RuleStatus.ACTIVE
        ),
    )


def kind_table(area: str) -> str:
    """Write one area's kinds of findings as a table."""
    rows = [row for row in finding_kinds().values() if row.area == area]
    return table(
        ("id", "severity", "reported when", "expected"),
        ((code(r.id), r.severity.value, r.condition, expected_text(r)) for r in rows),
    )


def expected_text(row: FindingKind) -> str:
    """Write what a finding says is allowed, by case where there are several."""
    return "; ".join(f"{case}: {text}" if case else text for case, text in row.expected.items())
