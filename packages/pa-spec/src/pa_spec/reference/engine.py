"""The page about the engine."""

from __future__ import annotations

from collections.abc import Iterator

from pa_spec.contract import (
    FailureCell,
    FaultOrigin,
    OutcomeRecord,
    checks,
    error_codes,
    event_flags,
    failure_table,
    finish_reasons,
    outcomes,
    request_states,
    request_transitions,
    step_phases,
)
from pa_spec.lifecycle import FaultKind
from pa_spec.reference.markdown import code, codes, table, yes


def engine_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield "## States of a request"
    yield state_table()
    yield transition_table()
    yield "## Phases of a step"
    yield phase_table()
    yield "## What a failure comes to"
    for origin in FaultOrigin:
        yield f"Failures that arise on the {origin.value}:"
        yield failures_table(origin)
    yield "## Outcomes"
    yield outcome_table()
    yield "## Events"
    yield from event_tables()
    yield "## Checks"
    yield check_table()


def state_table() -> str:
    """Write the states of a request as a table."""
    return table(
        ("state", "value", "resident", "meaning"),
        ((code(r.name), r.value, r.resident, r.meaning) for r in request_states()),
    )


def transition_table() -> str:
    """Write the transitions of a request as a table."""
    return table(
        ("from", "event", "to"),
        (
            (code(source.name), event, code(target.name))
            for (source, event), target in request_transitions().items()
        ),
    )


def phase_table() -> str:
    """Write the phases of a step as a table."""
    return table(
        ("phase", "stage", "meaning"),
        ((code(r.name.value), r.stage, r.meaning) for r in step_phases()),
    )


def failures_table(origin: FaultOrigin) -> str:
    """Write what failures of an origin come to, one line for each phase."""
    cells = failure_table(origin)
    return table(
        ("phase", *(kind.value.replace("_", " ") for kind in FaultKind), "state afterwards"),
        (
            (
                code(phase.value),
                *(_failure(cells[phase, kind]) for kind in FaultKind),
                "as before the step" if cells[phase, FaultKind.UNKNOWN].restored else "undefined",
            )
            for phase in dict.fromkeys(phase for phase, _ in cells)
        ),
    )


def outcome_table() -> str:
    """Write the outcomes as a table."""
    return table(
        ("outcome", "flags", "events", "error code", "engine", "requests", "meaning"),
        (
            (
                r.name.value,
                _flags(r),
                r.events,
                code(r.error_code.name),
                "usable" if r.engine_reusable else "unusable",
                "usable" if r.request_usable else "turn over",
                r.meaning,
            )
            for r in outcomes().values()
        ),
    )


def event_tables() -> Iterator[str]:
    """Yield the tables of flags, finish reasons and error codes."""
    yield table(
        ("flag", "value", "valid fields", "meaning"),
        ((code(r.name), r.value, codes(r.payload), r.meaning) for r in event_flags()),
    )
    for title, rows in (("finish reason", finish_reasons()), ("error code", error_codes())):
        yield table(
            (title, "value", "documented", "meaning"),
            ((code(r.name), r.value, yes(not r.added), r.meaning) for r in rows),
        )


def check_table() -> str:
    """Write the checks as a table."""
    return table(
        ("check", "defends", "made in", "message"),
        ((code(r.id), ", ".join(r.cites), r.scope.value, r.message) for r in checks().values()),
    )


def _failure(cell: FailureCell) -> str:
    return cell.outcome.value if cell.outcome else "propagates"


def _flags(row: OutcomeRecord) -> str:
    word = " or " if row.flags_mean == "any" else " and "
    return word.join(code(flag.name) for flag in row.flags)
