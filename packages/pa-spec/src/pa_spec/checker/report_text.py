"""A report for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from pa_spec.checker.finding import Finding
from pa_spec.checker.meaning_text import capacity_lines, meaning_lines
from pa_spec.checker.report import Report, TargetKind, Verdict
from pa_spec.checker.text import printable, shortened
from pa_spec.contract.finding_kind import Severity

MAX_LINE = 1000
"""Characters of a line; longer ones are what a hostile file holds."""

_VERDICTS = {
    Verdict.CONFORMS: "conforms",
    Verdict.VIOLATIONS: "does not conform",
    Verdict.UNREADABLE: "cannot be read",
}
_KINDS = {
    TargetKind.ONNX_FILE: "ONNX file",
    TargetKind.EXPORTED_FOLDER: "exported model",
    TargetKind.HUGGINGFACE_FOLDER: "Hugging Face model",
    TargetKind.ENGINE_CONFIGURATION: "engine configuration",
    TargetKind.UNKNOWN: "",
}
_HEADS = {
    Severity.UNREADABLE: "cannot be read:",
    Severity.VIOLATION: "violations:",
    Severity.WARNING: "warnings:",
    Severity.NOTE: "notes:",
}


def report_text(report: Report) -> str:
    """Return a report as lines: the verdict, findings by weight and file, facts and meaning.

    Nothing in it moves a terminal's cursor or hides text, whatever the checked files hold.
    """
    return "\n".join(shortened(printable(line), MAX_LINE) for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield _verdict(report)
    for severity in Severity:
        found = [each for each in report.findings if each.severity is severity]
        if found:
            yield ""
            yield _HEADS[severity]
            yield from _findings(found)
    if report.omitted:
        yield ""
        yield from (f"  {count} more of {each}" for each, count in report.omitted.items())
    if report.facts:
        yield ""
        yield from _aligned(list(report.facts.items()))
    if report.meaning is not None:
        yield ""
        yield from _aligned(meaning_lines(report.meaning) + capacity_lines(report))


def _verdict(report: Report) -> str:
    counts = [
        (severity, sum(each.severity is severity for each in report.findings))
        for severity in Severity
    ]
    words = [_count(severity, count) for severity, count in counts if count]
    kind = f" ({_KINDS[report.kind]})" if _KINDS[report.kind] else ""
    strictly = " strictly" if report.is_strict else ""
    found = ", ".join(words) or "nothing found"
    path = shortened(report.path)
    return f"{path}{kind}: {_VERDICTS[report.verdict]}{strictly}; {found}"


def _count(severity: Severity, count: int) -> str:
    if severity is Severity.UNREADABLE:
        return f"{count} unreadable"
    return f"{count} {severity.value}{'s' if count > 1 else ''}"


def _findings(found: list[Finding]) -> Iterator[str]:
    # Files in the order in which they come up; sorting keeps the order inside a file.
    order = {file: index for index, file in enumerate(dict.fromkeys(e.place.file for e in found))}
    ordered = sorted(found, key=lambda each: order[each.place.file])
    for file, group in groupby(ordered, key=lambda each: each.place.file):
        indent = "  "
        if file:
            yield f"  {shortened(file)}"
            indent = "    "
        for each in group:
            inside, name = shortened(each.place.inside), shortened(each.name)
            # "engine.dynamic_batching.block_size: block_size" says it twice.
            said = inside if inside.endswith(name) else f"{inside}: {name}" if inside else name
            expected, actual = shortened(each.expected, 400), shortened(each.actual)
            yield f"{indent}{each.id}  {said}: expected {expected}, got {actual}"


def _aligned(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(label) for label, _ in rows)
    yield from (f"  {label:<{width}}  {text}".rstrip() for label, text in rows)
