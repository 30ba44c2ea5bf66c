"""Typed access to the values of a configuration file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

from pa_spec import InputUnusable


@final
class Fields:
    """A JSON object or metadata table, read by key; a wrong type is InputUnusable naming it.

    A key that is absent or null takes the default.
    """

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = values

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    @property
    def values(self) -> Mapping[str, Any]:
        """The object as it stands."""
        return self._values

    def raw(self, key: str) -> Any:
        """Return the value as it stands, None when absent."""
        return self._values.get(key)

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        """Return an integer of at least `least`."""
        value = self._values.get(key)
        if value is None:
            value = self._default(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputUnusable(
                f"{self.name}.{key}", f"{value!r}", f"an integer of at least {least}"
            )
        return value

    def number(self, key: str, default: float | None = None, above: float = 0.0) -> float:
        """Return a finite number above `above`."""
        value = self._values.get(key)
        if value is None:
            return float(self._default(key, default))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputUnusable(f"{self.name}.{key}", f"{value!r}", "a number")
        if not math.isfinite(value) or value <= above:
            raise InputUnusable(
                f"{self.name}.{key}", f"{value!r}", f"a finite number above {above}"
            )
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """Return a finite number above 0, or None when the key is absent."""
        return None if self._values.get(key) is None else self.number(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = self._values.get(key)
        if value is None:
            value = self._default(key, default)
        if not isinstance(value, str):
            raise InputUnusable(f"{self.name}.{key}", f"{value!r}", "a string")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputUnusable(f"{self.name}.{key}", f"{value!r}", "true or false")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers, empty when absent."""
        return tuple(float(each) for each in self._list(key, int | float, "a list of numbers"))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty when absent."""
        return tuple(self._list(key, str, "a list of strings"))

    def token_ids(self, key: str) -> tuple[int, ...] | None:
        """Return one id or a list of ids as a tuple, None when the key is absent or null."""
        value = self._values.get(key)
        if value is None:
            return None
        ids = value if isinstance(value, list) else [value]
        for each in ids:
            if isinstance(each, bool) or not isinstance(each, int) or each < 0:
                allowed = "a token id or a list of token ids"
                raise InputUnusable(f"{self.name}.{key}", f"{value!r}", allowed)
        return tuple(dict.fromkeys(ids))

    def _list(self, key: str, kind: Any, allowed: str) -> Sequence[Any]:
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise InputUnusable(f"{self.name}.{key}", f"{value!r}", allowed)
        for each in value:
            if isinstance(each, bool) or not isinstance(each, kind):
                raise InputUnusable(f"{self.name}.{key}", f"{each!r}", allowed)
        return value

    def _default(self, key: str, default: Any) -> Any:
        if default is None:
            raise InputUnusable(f"{self.name}.{key}", "missing", "a value")
        return default
