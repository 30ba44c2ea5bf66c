"""What must hold for a check of any path: used by the targets that check files and folders."""

from __future__ import annotations

import json
from pathlib import Path

from pa_spec import Severity
from pa_spec.checker import CheckOptions, Report, check_model, report_json, report_text

# Sizes and counts that a configuration makes up may be printed; nothing longer may.
MAX_CHARACTERS = 2_000_000
OPTIONS = CheckOptions(memory_bytes=2**34, length_tokens=4096)


def checked(path: Path) -> Report:
    """Check a path and assert what holds for every report."""
    report = check_model(path, OPTIONS)
    text, document = report_text(report), json.loads(report_json(report))
    assert all(each.isprintable() for each in text.split("\n"))
    assert len(text) <= MAX_CHARACTERS
    assert document["exit_status"] == report.verdict.value
    weights = {each.severity for each in report.findings}
    assert (report.verdict.value == 2) == (Severity.UNREADABLE in weights)
    # What is given up is given up for a reason.
    assert report.meaning is not None or report.verdict.value or not _is_model(report)
    return report


def _is_model(report: Report) -> bool:
    return report.kind.value == "huggingface_folder"
