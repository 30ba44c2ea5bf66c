"""An overlay: changes to an engine configuration, applied as a whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pa_spec.contract.finding_kind import Severity
from pa_spec.contract.rule import rules

_DEEPEST = 8
"""Levels that base and overlay may have; a configuration has three."""


def apply_overlay(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine configuration with an overlay's values in place of its own.

    base, overlay: configurations as JSON has them. Objects are merged key by key, null takes a key
    away, everything else replaces what was there. Neither argument changes, and the result shares
    nothing with them.

    Raises ContractViolation (V86) naming all that is wrong with the result.
    """
    from pa_spec.checker.engine_file import check_engine_document
    from pa_spec.checker.finding import Findings

    if not isinstance(overlay, Mapping):
        raise rules()["V86"].violation("overlay", type(overlay).__name__)
    if _is_deeper(_DEEPEST, base, overlay):
        raise rules()["V86"].violation("overlay", f"more than {_DEEPEST} levels")
    candidate = _merged(base, overlay)
    findings = Findings()
    check_engine_document(candidate, findings, "")
    wrong = [str(each) for each in findings if each.severity is Severity.VIOLATION]
    if wrong:
        raise rules()["V86"].violation("overlay", "; ".join(wrong))
    return candidate


def _is_deeper(levels: int, *values: object) -> bool:
    """Whether objects and lists go deeper than so many levels; works level by level."""
    level: list[object] = list(values)
    for _ in range(levels):
        inner: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
    return any(isinstance(value, Mapping | list) for value in level)


def _merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: deepcopy(value) for key, value in base.items() if key not in overlay}
    for key, value in overlay.items():
        if isinstance(value, Mapping):
            inner = base.get(key)
            merged[key] = _merged(inner if isinstance(inner, Mapping) else {}, value)
        elif value is not None:
            merged[key] = deepcopy(value)
    return merged
