"""The keys `engine` and `search` of a configuration, whichever file they stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.text import did_you_mean, shown
from pa_spec.contract.configuration import Setting, settings

OBJECTS = ("engine", "engine.dynamic_batching", "engine.static_batching", "search")
"""The keys whose values are objects."""

MAX_UNKNOWN_KEYS = 1000
"""Unknown keys of one object that are looked into: finding what each was meant to be is slow."""

_PATHS = ("dynamic", "static")
_DYNAMIC = "engine.dynamic_batching"
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_TYPES = {
    "object": "an object",
    "int": "an integer",
    "float": "a finite number",
    "bool": "true or false",
}
_IS_LEGAL: Mapping[str, Callable[[float], bool]] = {
    "search.max_length": lambda value: 0 <= value <= _INT32_MAX,
    "search.min_length": lambda value: 0 <= value <= _INT32_MAX,
    "search.chunk_size": lambda value: value <= _INT32_MAX,
    "search.top_k": lambda value: 0 <= value <= _INT32_MAX,
    "search.top_p": lambda value: 0 <= value <= 1,
    "search.temperature": lambda value: value >= 0,
    "search.repetition_penalty": lambda value: value > 0,
    "search.no_repeat_ngram_size": lambda value: 0 <= value <= _INT32_MAX,
    "search.batch_size": lambda value: value == 1,
    "search.num_beams": lambda value: value == 1,
}


def check_settings(document: Mapping[str, Any], findings: Findings, file: str) -> None:
    """Check the keys `engine` and `search` of a configuration; other keys are not looked at.

    file: what findings call it (Place.file).
    """
    check_keys(document, findings, file)
    if is_given(document, _DYNAMIC):
        keys = field_keys()
        limits = {field: setting_value(document, key) for field, key in keys.items()}
        check_budget(limits, findings, lambda field: Place(file, keys[field]))


def check_keys(document: Mapping[str, Any], findings: Findings, file: str) -> None:
    """Check each key of `engine` and `search` by itself."""
    for name in ("engine", "search"):
        if name in document:
            _check_object(name, document[name], findings, file)
    if all(is_given(document, f"engine.{each}_batching") for each in _PATHS):
        findings.add("V75", Place(file, "engine"), "engine", "both of them")


def field_keys() -> dict[str, str]:
    """Return the key that gives each field of EngineConfig that has one."""
    return {row.field: row.key for row in settings().values() if row.status == "active"}


def setting_value(document: Mapping[str, Any], key: str) -> bool | float | None:
    """Return a setting's value, its default where it is not given, None where it is unusable.

    A key that has no default and is not given is None too.
    """
    row = settings()[key]
    found: Any = document
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return row.default
        found = found[part]
    usable = as_number(found, row.type)
    return None if usable is None or _fault(row, usable) else usable


def resolved_settings(document: Mapping[str, Any]) -> dict[str, str]:
    """Return every limit by its key, in words: its value, and "default" where none is given.

    Objects that are not given are left out, because what they would set has other defaults.
    """
    paths = [each for each in _PATHS if is_given(document, f"engine.{each}_batching")]
    facts = {"batching": paths[0] if paths else "static: there is no engine.dynamic_batching"}
    for key, row in settings().items():
        if row.type == "object" or row.status == "unused":
            continue
        if not is_given(document, key.rpartition(".")[0]):
            continue
        value = setting_value(document, key)
        if value is None:
            facts[key] = "unusable" if is_given(document, key) else "unset"
        elif key == "search.chunk_size" and value <= 0:
            facts[key] = "unset"
        else:
            facts[key] = shown(value) + ("" if is_given(document, key) else " (default)")
    return facts


def as_number(value: object, kind: str) -> bool | float | None:
    """Return a JSON value as "int", "float" or "bool", None when it is none.

    256.0 is an integer, as it is for readers whose numbers are all floating point; true is not.
    """
    if kind == "bool" or isinstance(value, bool):
        return value if isinstance(value, bool) and kind == "bool" else None
    if isinstance(value, int):
        # Also keeps the value within the range of a float.
        return value if -_INT64_MAX <= value <= _INT64_MAX else None
    if not isinstance(value, float) or not isfinite(value):
        return None
    if kind == "float":
        return value
    return int(value) if value.is_integer() and abs(value) <= _INT64_MAX else None


def _check_object(key: str, value: object, findings: Findings, file: str) -> None:
    name = key.rpartition(".")[2]
    if not isinstance(value, Mapping):
        _report(_type_id(key), Place(file, key), value, "object", findings)
        return
    known = [each.removeprefix(f"{key}.") for each in (*settings(), *OBJECTS)]
    known = sorted({each for each in known if "." not in each and each not in OBJECTS})
    unknown = 0
    for name, inner in value.items():
        full = f"{key}.{name}"
        if full in OBJECTS:
            _check_object(full, inner, findings, file)
        elif full in settings() and "." not in name:
            _check_value(settings()[full], inner, findings, file)
        elif unknown < MAX_UNKNOWN_KEYS:
            unknown += 1
            _report_unknown(Place(file, full), name, known, findings)


def _report_unknown(place: Place, name: str, known: list[str], findings: Findings) -> None:
    actual, allowed = shown(name) + did_you_mean(name, known), ", ".join(known)
    if place.inside.startswith("engine."):
        findings.add("V74", place, name, actual, case="key", allowed=allowed)
    else:
        findings.add("engine.unknown_search_key", place, name, actual, allowed=allowed)


def _check_value(row: Setting, value: object, findings: Findings, file: str) -> None:
    number = as_number(value, row.type)
    fault = _type_id(row.key) if number is None else _fault(row, number)
    if fault:
        _report(fault, Place(file, row.key), value, row.type, findings)


def _report(fault: str, place: Place, value: object, kind: str, findings: Findings) -> None:
    key = place.inside
    name, actual = key.rpartition(".")[2], shown(value)
    if fault == "V74":
        findings.add(fault, place, name, actual, case="object" if kind == "object" else "flag")
    elif fault == "engine.wrong_value":
        findings.add(fault, place, name, actual, allowed=_TYPES[kind])
    elif fault == "V87":
        findings.add(fault, place, name, actual, case="type", allowed=settings()[key].allowed)
    else:
        findings.add(fault, place, name, actual)


def _type_id(key: str) -> str:
    """Return the id of a value of another type than its key takes."""
    if not key.startswith("engine"):
        return "engine.wrong_value"
    if key in OBJECTS or settings()[key].type == "bool":
        return "V74"
    return "V72" if settings()[key].type == "int" else "V73"


def _fault(row: Setting, value: bool | float) -> str:  # noqa: FBT001 - a setting's value
    """Return the id of the rule that a value of the right type breaks, "" when none."""
    if row.status == "unused":
        return ""
    if row.key.startswith("engine.") and row.type == "int":
        if not 1 <= value <= _INT32_MAX:
            return "V72"
        is_block_size = row.key == f"{_DYNAMIC}.block_size"
        return "V29" if is_block_size and not is_block_size_legal(int(value)) else ""
    if row.type == "float" and row.key.startswith("engine."):
        return "" if 0 < value <= 1 else "V73"
    return "" if row.key not in _IS_LEGAL or _IS_LEGAL[row.key](value) else "V87"


def is_block_size_legal(size: int) -> bool:
    """Return whether a block may have that many slots (V29)."""
    return size >= 16 and not size & (size - 1)


def check_budget(
    limits: Mapping[str, object], findings: Findings, place_of: Callable[[str], Place]
) -> None:
    """Say what limits come to that are legal and at odds with each other.

    limits: by the names of EngineConfig's fields; None = unusable or unset. place_of: a field's.
    """
    tokens, rows, chunk = map(limits.get, ("max_scheduled_tokens", "max_batch_size", "chunk_size"))
    if not isinstance(tokens, int):
        return
    if isinstance(rows, int) and tokens < rows:
        place = place_of("max_scheduled_tokens")
        findings.add("engine.budget_below_batch", place, "max_scheduled_tokens", tokens, rows=rows)
    if isinstance(chunk, int) and chunk > tokens:
        place = place_of("chunk_size")
        findings.add("engine.chunk_above_budget", place, "chunk_size", chunk, tokens=tokens)


def is_given(document: Mapping[str, Any], key: str) -> bool:
    """Return whether a configuration has a key, whatever its value."""
    found: Any = document
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return True
