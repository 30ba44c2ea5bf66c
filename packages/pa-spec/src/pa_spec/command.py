"""The command pa-spec: prints the contract and checks models against it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence

from pa_spec._version import __version__
from pa_spec.checker.command import add_check, write
from pa_spec.contract import (
    CONTRACT_VERSION,
    FaultOrigin,
    checks,
    decisions,
    finding_kinds,
    invariants,
    rules,
)
from pa_spec.contract.data import text
from pa_spec.errors import InputUnusable, PagedAttentionError
from pa_spec.reference.backend import backend_table, limit_table, matrix_table
from pa_spec.reference.configuration import binding_table, group_table, setting_table
from pa_spec.reference.engine import (
    check_table,
    event_tables,
    failures_table,
    outcome_table,
    phase_table,
    state_table,
    transition_table,
)
from pa_spec.reference.finding import expected_text
from pa_spec.reference.markdown import plain
from pa_spec.reference.model import model_parts
from pa_spec.reference.operator import (
    attribute_table,
    compatibility_table,
    input_table,
    metadata_tables,
    mode_table,
    output_table,
    type_table,
)
from pa_spec.reference.rule import status_text

_TABLES: Mapping[str, Callable[[], str]] = {
    "version": lambda: CONTRACT_VERSION,
    "inputs": input_table,
    "outputs": output_table,
    "attributes": attribute_table,
    "types": type_table,
    "modes": mode_table,
    "compatibility": compatibility_table,
    "metadata": lambda: "\n\n".join(metadata_tables()),
    "backends": lambda: f"{backend_table()}\n\n{limit_table()}",
    "matrix": matrix_table,
    "decisions": lambda: "\n".join(f"{r.id}: {r.decision}" for r in decisions().values()),
    "rules": lambda: "\n".join(f"{r.id}: {r.condition}" for r in rules().values()),
    "findings": lambda: "\n".join(f"{r.id}: {r.condition}" for r in finding_kinds().values()),
    "invariants": lambda: "\n".join(f"{r.id}: {r.statement}" for r in invariants().values()),
    "states": lambda: f"{state_table()}\n\n{transition_table()}",
    "phases": phase_table,
    "failures": lambda: "\n\n".join(map(failures_table, FaultOrigin)),
    "outcomes": outcome_table,
    "events": lambda: "\n\n".join(event_tables()),
    "checks": check_table,
    "settings": setting_table,
    "models": lambda: "\n\n".join(model_parts()),
    "state": lambda: f"{group_table()}\n\n{binding_table()}",
}
# Printed as they are.
_DOCUMENTS = {"report-schema": "schemas/report.schema.json"}
_NAMES = (*_TABLES, *_DOCUMENTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 2 when it was asked for nonsense."""
    parser = ArgumentParser(prog="pa-spec", description="The contract of paged attention.")
    version = f"%(prog)s {__version__}, contract {CONTRACT_VERSION}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="print a table, or one rule, invariant or check")
    show.add_argument(
        "name", help=f"{', '.join(_NAMES)}, or an id such as V29, E45 or file.not_json"
    )
    show.set_defaults(run=_show)
    add_check(commands)
    chosen = parser.parse_args(arguments)
    status: int = chosen.run(chosen)
    return status


def _show(chosen: Namespace) -> int:
    try:
        shown = text_of(chosen.name)
    except PagedAttentionError as error:
        write(sys.stderr, f"pa-spec: {error}\n")
        return 2
    write(sys.stdout, f"{shown}\n")
    return 0


def text_of(name: str) -> str:
    """Return what `pa-spec show` prints for a table's name or an id.

    Raises InputUnusable for a name that the contract does not have.
    """
    if name in _DOCUMENTS:
        return text(_DOCUMENTS[name]).rstrip()
    return plain(_table_or_entry(name))


def _table_or_entry(name: str) -> str:
    if name in _TABLES:
        return _TABLES[name]()
    if name in rules():
        return _rule(name)
    if name in invariants():
        row = invariants()[name]
        return _lines(f"{row.id}: {row.statement}", group=row.group, status=status_text(row))
    if name in checks():
        check = checks()[name]
        made = f"{check.owner}, {check.scope.value}"
        return _lines(f"{check.id}: {check.message}", defends=", ".join(check.cites), made_in=made)
    if name in finding_kinds():
        kind = finding_kinds()[name]
        severity, expected = kind.severity.value, expected_text(kind)
        return _lines(f"{kind.id}: {kind.condition}", severity=severity, expected=expected)
    if name in decisions():
        decision = decisions()[name]
        return _lines(decision.question, decision=decision.decision, reason=decision.reason)
    raise InputUnusable(name, "is not in the contract", f"{', '.join(_NAMES)}, or an id")


def _rule(rule_id: str) -> str:
    rule = rules()[rule_id]
    expected = {f"expected {case}".rstrip(): text for case, text in rule.expected.items()}
    decision = decisions()[rule.decision].decision if rule.decision else ""
    return _lines(
        f"{rule.id}: {rule.condition}",
        names=", ".join(rule.names),
        **expected,
        stage=rule.stage,
        decided_by=rule.decided_by.value,
        status=status_text(rule),
        decision=decision,
    )


def _lines(first: str, **fields: str) -> str:
    rest = (f"  {name.replace('_', ' ')}: {text}" for name, text in fields.items() if text)
    return "\n".join((first, *rest))


if __name__ == "__main__":
    sys.exit(main())
