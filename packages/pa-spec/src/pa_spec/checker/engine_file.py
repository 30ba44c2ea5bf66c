"""An engine configuration file: keys of spec/config/engine.toml, fields of EngineConfig, or both.

The keys stand in the objects `engine` and `search`; the fields stand beside them, at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.setting import (
    MAX_UNKNOWN_KEYS,
    check_budget,
    check_keys,
    field_keys,
    is_block_size_legal,
    is_given,
    resolved_settings,
    setting_value,
)
from pa_spec.checker.text import did_you_mean, shown
from pa_spec.config import EngineConfig

OBJECTS = ("engine", "search")
FIELDS: Mapping[str, object] = {each.name: each.default for each in fields(EngineConfig)}
"""EngineConfig's fields and their defaults."""

_MIN_LENGTH = "search.min_length"

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
    check_keys(document, findings, file)
    for key in (each for each in FIELDS if each in document):
        _check_field(Place(file, key), key, document[key], findings)
    known = (*OBJECTS, *FIELDS)
    unknown = (key for key in document if key not in known)
    for key in islice(unknown, MAX_UNKNOWN_KEYS):
        actual = shown(key) + did_you_mean(key, known)
        findings.add("engine.unknown_key", Place(file, key), key, actual, allowed=", ".join(known))
    _check_given_twice(document, findings, file)
    keys = field_keys()
    limits = {field: _limit(document, field, keys.get(field, "")) for field in FIELDS}
    check_budget(limits, findings, lambda field: Place(file, _source(document, field, keys)))
    place = Place(file, _source(document, "max_session_tokens", keys))
    _check_session(limits, place, findings)
    shortest = setting_value(document, _MIN_LENGTH)
    longest = limits["max_session_tokens"]
    if isinstance(shortest, int) and isinstance(longest, int) and 0 < longest < shortest:
        where, most = Place(file, _MIN_LENGTH), f"{place.inside} = {longest}"
        findings.add("engine.min_above_max", where, "min_length", shortest, most=most)
    return _resolved(document)


def _check_session(limits: Mapping[str, object], place: Place, findings: Findings) -> None:
    names = ("block_size", "num_blocks", "max_session_tokens")
    block_size, num_blocks, session = map(limits.get, names)
    if not (isinstance(block_size, int) and isinstance(num_blocks, int)):
        return
    slots = block_size * num_blocks
    if isinstance(session, int) and session > slots:
        key, values = place.inside, {"slots": slots, "blocks": num_blocks, "size": block_size}
        name = key.rpartition(".")[2]
        findings.add("engine.session_above_pool", place, name, session, **values)


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


def _limit(document: Mapping[str, Any], field: str, key: str) -> object:
    """Return what a limit comes to, None where it is unusable or unset."""
    if field not in document and is_given(document, key.rpartition(".")[0]):
        return setting_value(document, key)
    value = document.get(field, FIELDS[field])
    return None if _fault(field, value) else value


def _source(document: Mapping[str, Any], field: str, keys: Mapping[str, str]) -> str:
    is_key = field not in document and is_given(document, keys.get(field, ""))
    return keys[field] if is_key else field


def _check_given_twice(document: Mapping[str, Any], findings: Findings, file: str) -> None:
    for field, key in field_keys().items():
        if field not in document or not is_given(document, key) or _fault(field, document[field]):
            continue
        by_key, by_field = setting_value(document, key), document[field]
        if by_key is not None and by_key != by_field:
            actual = f"{shown(by_key)} and {shown(by_field)}"
            place = Place(file, field)
            findings.add("engine.given_twice", place, field, actual, key=key, field=field)


def _resolved(document: Mapping[str, Any]) -> dict[str, str]:
    """Return every limit by its field, and by their keys the settings that no field carries."""
    by_key = resolved_settings(document)
    keys, batching = field_keys(), by_key.pop("batching")
    facts = {"batching": batching} if "engine" in document else {}
    for field, default in FIELDS.items():
        key = keys.get(field, "")
        if field in document:
            facts[field] = _words(field, document[field])
        elif is_given(document, key):
            facts[field] = f"{by_key[key]} ({key})"
        else:
            # A file with engine.dynamic_batching has defaults of its own.
            facts[field] = by_key.get(key) or _words(field, default) + _default_mark(default)
    others = by_key.keys() - keys.values()
    return facts | {key: text for key, text in by_key.items() if key in others}


def _words(field: str, value: object) -> str:
    if _fault(field, value):
        return "unusable"
    return "unset" if value is None else shown(value)


def _default_mark(default: object) -> str:
    return "" if default is None else " (default)"
