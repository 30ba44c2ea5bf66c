"""Typed reading of one JSON object: every mistake becomes a finding, never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

from pa_spec.checker.finding import Findings, Place

MAX_COUNT = 2**31 - 1
"""Counts beyond int32 fit no attribute and no tensor of the contract."""

MAX_NUMBER = 1e30
"""Floats beyond it overflow in formulas of rotary embeddings; real ones stay below 1e12."""

_SHOWN = 160


@final
class Fields:
    """One object of a configuration, read by key.

    A key that is absent takes its default: the caller's, else the family's. `is_broken` turns
    true with the first value that cannot be used; a reader then returns something harmless, so
    that every key is looked at before one gives up. outer: the fields around this object, which
    break with it.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        findings: Findings,
        place: Place,
        defaults: Mapping[str, Any] | None = None,
        nullable: tuple[str, ...] = (),
    ) -> None:
        self.findings = findings
        self.place = place
        self.is_broken = False
        self.outer: Fields | None = None
        self._values = values
        self._defaults = defaults or {}
        self._nullable = frozenset(nullable)
        self._refused: set[tuple[str, str]] = set()

    def __contains__(self, key: str) -> bool:
        """Whether a value is written that is not null."""
        return self._values.get(key) is not None

    def is_written(self, key: str) -> bool:
        """Whether the key is written, be it as null."""
        return key in self._values

    def raw(self, key: str) -> Any:
        """Return the value as it stands, None when absent."""
        return self._values.get(key)

    def default(self, key: str) -> Any:
        """Return the family's default, None where it has none."""
        return self._defaults.get(key)

    def inside(self, key: str, values: Mapping[str, Any], nullable: tuple[str, ...] = ()) -> Fields:
        """Return the object under a key as fields of its own, without the family's defaults.

        What breaks it breaks this one too.
        """
        within = f"{self.place.inside}.{key}" if self.place.inside else key
        found = Fields(values, self.findings, Place(self.place.file, within), None, nullable)
        found.outer = self
        return found

    def report(self, finding_id: str, name: str, actual: object, /, **values: object) -> None:
        """Report a finding about a key that does not keep the rest from being read."""
        self.findings.add(finding_id, self.place, name, _shown(actual), **values)

    def refuse(self, finding_id: str, name: str, actual: object, /, **values: object) -> None:
        """Report a finding about a key without whose value nothing can be resolved."""
        broken: Fields | None = self
        while broken is not None:
            broken.is_broken = True
            broken = broken.outer
        # A key may be read by several functions; its mistake is reported once.
        if (finding_id, name) not in self._refused:
            self._refused.add((finding_id, name))
            self.report(finding_id, name, actual, **values)

    def count(
        self, key: str, default: int | None = None, least: int = 1, most: int = MAX_COUNT
    ) -> int:
        """Return an integer from least to most."""
        if self._value(key, default) is None and not self.is_written(key):
            self.refuse("config.missing", key, "nothing")
            return least
        found = self.optional_count(key, default, least, most)
        return least if found is None else found

    def optional_count(
        self, key: str, default: int | None = None, least: int = 1, most: int = MAX_COUNT
    ) -> int | None:
        """Return an integer from least to most, None where neither key nor default is there."""
        value = self._value(key, default)
        if value is None and not self._is_bad_null(key):
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse("config.not_a_number", key, value, case="count")
            return None
        if not least <= value <= most:
            allowed = f"an integer from {least} to {most}"
            self.refuse("config.out_of_range", key, value, allowed=allowed)
            return None
        return value

    def number(self, key: str, default: float | None = None, above: float = 0.0) -> float:
        """Return a finite number above `above`."""
        if self._value(key, default) is None and not self.is_written(key):
            self.refuse("config.missing", key, "nothing")
            return above + 1.0
        found = self.optional_number(key, default, above)
        return above + 1.0 if found is None else found

    def optional_number(
        self, key: str, default: float | None = None, above: float = 0.0
    ) -> float | None:
        """Return a finite number above `above`, None where neither key nor default is there."""
        value = self._value(key, default)
        if value is None and not self._is_bad_null(key):
            return None
        if not is_number(value):
            self.refuse("config.not_a_number", key, value, case="number")
            return None
        if not above < value <= MAX_NUMBER:
            allowed = f"a number above {above:g}, at most {MAX_NUMBER:g}"
            self.refuse("config.out_of_range", key, value, allowed=allowed)
            return None
        return float(value)

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """Return a boolean; absent and without a default it is false."""
        value = self._value(key, default)
        if value is None and not self._is_bad_null(key):
            return False
        if not isinstance(value, bool):
            self.refuse("config.wrong_type", key, value, case="flag")
            return False
        return value

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self._value(key, default)
        if value is not None and not isinstance(value, str):
            self.refuse("config.wrong_type", key, value, case="text")
            return default
        return value or default

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty when absent or null."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.refuse("config.wrong_type", key, value, case="texts")
            return ()
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        value = self._values.get(key)
        if not isinstance(value, list) or not all(is_number(each) for each in value):
            self.refuse("config.not_a_number", key, value, case="numbers")
            return ()
        return tuple(float(each) for each in value)

    def counts(self, key: str) -> tuple[int, ...]:
        """Return a list of integers that are not negative, empty when absent or null."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(_is_count(each) for each in value):
            self.refuse("config.not_a_number", key, value, case="counts")
            return ()
        return tuple(value)

    def object(self, key: str) -> Mapping[str, Any] | None:
        """Return an object, None when absent or null."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse("config.wrong_type", key, value, case="object")
            return None
        return value

    def _value(self, key: str, default: Any) -> Any:
        if key in self._values:
            return self._values[key]
        return self._defaults.get(key) if default is None else default

    def _is_bad_null(self, key: str) -> bool:
        return key in self._values and key not in self._nullable


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer of a thousand digits has no float; it is out of every range.
    return abs(value) < 2**1000 if isinstance(value, int) else math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _shown(value: object) -> str:
    """Return a short text of a value, whatever it is and however large."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)} keys"
        case int() if abs(value) >= 2**63:
            return f"an integer of {value.bit_length()} bits"
        case _:
            return str(value)
