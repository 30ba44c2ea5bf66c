"""An engine configuration file: keys of spec/config/engine.toml, fields of EngineConfig, or both.

The keys stand in the objects `engine` and `search`; the fields stand beside them, at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.setting import (
    as_number,
    check_budget,
    check_settings,
    is_block_size_legal,
    is_given,
    resolved_settings,
    setting_value,
)
from pa_spec.checker.text import did_you_mean, shown
from pa_spec.config import EngineConfig
from pa_spec.contract.configuration import settings

OBJECTS = ("engine", "search")
FIELDS: Mapping[str, object] = {each.name: each.default for each in fields(EngineConfig)}
"""EngineConfig's fields and their defaults."""

# Fields that a limit of V72 is not about: the least and most that they may be.
_RANGES = {
    "chunk_size": (0, 2**31 - 1),
    "max_session_tokens": (0, 2**31 - 1),
    "memory_budget_bytes": (1, 2**63 - 1),
}


def is_engine_document(document: Mapping[str, Any]) -> bool:
    """Return whether any key is one of an engine configuration, misspelled ones left out."""
    return any(key in document for key in (*OBJECTS, *FIELDS))


def check_engine_document(
    document: Mapping[str, Any], findings: Findings, file: str
) -> dict[str, str]:
    """Check an engine configuration and return what each limit comes to, in words."""
    check_settings(document, findings, file)
    known = (*OBJECTS, *FIELDS)
    for key, value in document.items():
        place = Place(file, key)
        if key in FIELDS:
            _check_field(place, key, value, findings)
        elif key not in OBJECTS:
            actual = shown(key) + did_you_mean(key, known)
            findings.add("engine.unknown_key", place, key, actual, allowed=", ".join(known))
    _check_given_twice(document, findings, file)
    given = [key for key in FIELDS if key in document]
    if given:
        limits = {field: _usable(field, document) for field in FIELDS}
        check_budget(limits, findings, lambda field: Place(file, field))
    facts = resolved_settings(document) if any(key in document for key in OBJECTS) else {}
    return facts | (_resolved_fields(document) if given else {})


def _check_field(place: Place, field: str, value: object, findings: Findings) -> None:
    fault = _fault(field, value)
    if fault == "engine.wrong_value":
        least, most = _RANGES.get(field, (0, 0))
        allowed = f"an integer from {least} to {most}" if most else "true or false"
        findings.add(fault, place, field, shown(value), allowed=allowed)
    elif fault:
        findings.add(fault, place, field, shown(value))


def _fault(field: str, value: object) -> str:
    """Return the id of what is wrong with a field's value, "" when nothing is."""
    if value is None and FIELDS[field] is None:
        return ""
    if isinstance(FIELDS[field], bool):
        return "" if isinstance(value, bool) else "engine.wrong_value"
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    least, most = _RANGES.get(field, (1, 2**31 - 1))
    if not is_integer or not isinstance(value, int) or not least <= value <= most:
        return "engine.wrong_value" if field in _RANGES else "V72"
    return "V29" if field == "block_size" and not is_block_size_legal(value) else ""


def _usable(field: str, document: Mapping[str, Any]) -> object:
    value = document.get(field, FIELDS[field])
    return None if _fault(field, value) else value


def _check_given_twice(document: Mapping[str, Any], findings: Findings, file: str) -> None:
    for row in settings().values():
        is_both = row.status == "active" and row.field in document and is_given(document, row.key)
        if not is_both or _fault(row.field, document[row.field]):
            continue
        by_key = setting_value(document, row.key)
        by_field = as_number(document[row.field], row.type)
        if by_key is not None and by_key != by_field:
            actual = f"{shown(by_key)} and {shown(by_field)}"
            values = {"key": row.key, "field": row.field}
            findings.add("engine.given_twice", Place(file, row.field), row.field, actual, **values)


def _resolved_fields(document: Mapping[str, Any]) -> dict[str, str]:
    facts = {}
    for field, default in FIELDS.items():
        if field not in document:
            facts[field] = f"{shown(default)} (default)" if default is not None else "unset"
        elif _fault(field, document[field]):
            facts[field] = "unusable"
        else:
            facts[field] = shown(document[field])
    return facts
