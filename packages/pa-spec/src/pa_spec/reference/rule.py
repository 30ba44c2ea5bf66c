"""The pages about rules and invariants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pa_spec.contract import Invariant, Rule, RuleStatus, invariants, rules
from pa_spec.reference.markdown import codes, table

_STATUS = {
    RuleStatus.ACTIVE: "active",
    RuleStatus.PENDING: "pending",
    RuleStatus.NOT_OURS: "not ours",
    RuleStatus.SUPERSEDED: "superseded",
}
_MOST_NAMES = 6


def rule_parts() -> Iterator[str]:
    """Yield the parts of the page about rules."""
    yield (
        "An error reads `<name>: expected <expected>, got <actual> (<rule>)`. Words in braces are "
        "filled from the call."
    )
    yield table(
        ("rule", "names", "violated when", "expected", "decided by", "status"),
        (
            (r.id, _names(r.names), r.condition, _expected(r), r.decided_by.value, status_text(r))
            for r in rules().values()
        ),
    )


def invariant_parts() -> Iterator[str]:
    """Yield the parts of the page about invariants."""
    for group in dict.fromkeys(row.group for row in invariants().values()):
        rows = [row for row in invariants().values() if row.group == group]
        yield f"## {group.replace('_', ' ').capitalize()}"
        yield table(
            ("id", "statement", "status"), ((r.id, r.statement, status_text(r)) for r in rows)
        )


def status_text(row: Rule | Invariant) -> str:
    """Write a status with the feature, the reason or the remainder that belongs to it."""
    rest = row.remainder if isinstance(row, Rule) else ""
    checks = row.checks if isinstance(row, Rule) else ()
    reported = f"reported by {codes(checks)}" if checks else ""
    return ": ".join(filter(None, (_STATUS[row.status], row.feature, row.reason, rest, reported)))


def _names(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return codes(names)
    return f"{codes(names[:2])} and {len(names) - 2} more"


def _expected(rule: Rule) -> str:
    cases = rule.expected.items()
    return "; ".join(f"{case}: {text}" if case else text for case, text in cases)
