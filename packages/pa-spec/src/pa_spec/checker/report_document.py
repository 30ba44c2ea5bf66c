"""A report as JSON (spec/schemas/report.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from pa_spec._version import __version__
from pa_spec.checker.capacity import Capacity
from pa_spec.checker.finding import Finding
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.report import Report
from pa_spec.contract.version import CONTRACT_VERSION


def report_json(report: Report) -> str:
    """Return a report as one JSON object in ASCII, in a fixed order of keys."""
    return json.dumps(report_document(report), indent=2, allow_nan=False)


def report_document(report: Report) -> dict[str, Any]:
    """Return a report as values that JSON has."""
    return {
        "pa_spec": __version__,
        "contract": CONTRACT_VERSION,
        "path": _text(report.path),
        "kind": report.kind.value,
        "strict": report.is_strict,
        "verdict": report.verdict.name.lower(),
        "exit_status": report.verdict.value,
        "findings": [_finding(each) for each in report.findings],
        "omitted": _value(report.omitted),
        "facts": _value(report.facts),
        "meaning": None if report.meaning is None else _meaning(report.meaning),
        "capacity": None if report.capacity is None else _capacity(report.capacity),
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "id": found.id,
        "severity": found.severity.value,
        "file": _text(found.place.file),
        "inside": _text(found.place.inside),
        "name": _text(found.name),
        "expected": _text(found.expected),
        "actual": _text(found.actual),
        "message": _text(str(found)),
    }


def _meaning(meaning: ModelMeaning) -> dict[str, Any]:
    document: dict[str, Any] = _value(meaning)
    for rope, each in zip(document["ropes"], meaning.ropes, strict=True):
        rope["parameters"] = {key: _value(value) for key, value in each.parameters}
    document["kv_bytes_per_token"] = meaning.kv_bytes_per_token
    document["fixed_bytes_per_request"] = meaning.fixed_bytes_per_request
    return document


def _capacity(capacity: Capacity) -> dict[str, Any]:
    document: dict[str, Any] = _value(capacity)
    document["sequences"] = capacity.sequences
    document["ring_sequences"] = capacity.ring_sequences
    return document


def _value(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _value(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_text(str(key)): _value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    if isinstance(value, str):
        return _text(value)
    # JSON has no NaN and no infinity.
    return None if isinstance(value, float) and not isfinite(value) else value


def _text(text: str) -> str:
    """Replace half surrogates, which a JSON text in UTF-8 cannot hold, by escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
