"""One object of a JSON configuration: typed reads, and a finding for every value that is wrong."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.setting import as_number
from pa_spec.checker.text import did_you_mean, shown
from pa_spec.contract.configuration import model_objects

INT32_MAX = 2**31 - 1
_LETTERS_APART = 0.83
_MOST_COMPARED = 100
"""Unknown keys of one object that are compared with known ones; comparing is slow."""


@dataclass(frozen=True, slots=True)
class Section:
    """An object of a configuration. key: its own place ("model.decoder"); file: Place.file.

    A read returns None when the key is not given, and after reporting that its value is unusable;
    `has` tells the two apart.
    """

    values: Mapping[str, Any]
    key: str
    file: str
    findings: Findings

    def has(self, name: str) -> bool:
        """Return whether the key is given."""
        return name in self.values

    def place(self, name: str = "") -> Place:
        """Return where a key stands."""
        return Place(self.file, ".".join(filter(None, (self.key, name))))

    def section(self, name: str) -> Section | None:
        """Return an object; a given key that holds anything else is reported."""
        if name not in self.values:
            return None
        found = self.values[name]
        if not isinstance(found, Mapping):
            self.wrong(name, "object")
            return None
        return Section(found, self.place(name).inside, self.file, self.findings)

    def text(self, name: str) -> str | None:
        """Return a text that is not empty."""
        found = self.values.get(name)
        if isinstance(found, str) and found:
            return found
        if name in self.values:
            self.wrong(name, "text")
        return None

    def integer(self, name: str, least: int = 1) -> int | None:
        """Return an integer from `least` to the largest of int32."""
        if name not in self.values:
            return None
        found = as_int(self.values[name])
        if found is None or not least <= found <= INT32_MAX:
            self.wrong(name, "integer", least=least, most=INT32_MAX)
            return None
        return found

    def items(self, name: str) -> Sequence[Any] | None:
        """Return a list."""
        found = self.values.get(name)
        if isinstance(found, list):
            return found
        if name in self.values:
            self.wrong(name, "list")
        return None

    def wrong(self, name: str, case: str, **words: object) -> None:
        """Report that a key's value is not what it must be."""
        actual = shown(self.values[name])
        self.findings.add("exported.value", self.place(name), name, actual, case=case, **words)

    def missing(self, name: str, row: str = "") -> None:
        """Report that a key without which nothing can be checked is not given.

        row: as check_keys takes it; the key may be there under another name.
        """
        actual = "no such key" + self.hint(name, row)
        self.findings.add("exported.missing_key", self.place(name), name, actual)

    def hint(self, name: str, row: str = "") -> str:
        """Return words about a key that is nearly one that is not given, "" when there is none."""
        slips = [slip for slip, meant in self._slips(row).items() if meant == name]
        return f", but {shown(slips[0])}" if slips else ""

    def check_keys(self, row: str = "", required: Container[str] = ()) -> None:
        """Report keys that are nearly known ones; others may be a newer reader's.

        row: of spec/config/model.toml, where it is not this object's place. required: keys that
        `missing` reports where they are not given.
        """
        known = model_objects()[row or self.key].keys
        for name, meant in self._slips(row).items():
            if meant not in required:
                place, actual = self.place(name), f"{shown(name)} (did you mean {meant}?)"
                allowed = ", ".join(known)
                self.findings.add("exported.key_slip", place, name, actual, allowed=allowed)

    def _slips(self, row: str) -> dict[str, str]:
        """Return unknown keys with the known one that each is nearly.

        Beside the known one only a closer one is a slip: a newer reader's key resembles it too.
        """
        name = row or self.key
        known = model_objects()[name].keys if name in model_objects() else ()
        unknown = (name for name in self.values if name not in known)
        found = {}
        for name in islice(unknown, _MOST_COMPARED):
            suggestion = did_you_mean(name, known)
            meant = suggestion.removeprefix(" (did you mean ").removesuffix("?)")
            if meant and (meant not in self.values or _is_close(name, meant)):
                found[name] = meant
        return found


def _is_close(name: str, meant: str) -> bool:
    """Whether two keys differ by a letter or two, not by a word."""
    return SequenceMatcher(None, name, meant).ratio() >= _LETTERS_APART


def as_int(value: object) -> int | None:
    """Return a JSON value as an integer, None when it is none (true is not, 256.0 is)."""
    found = as_number(value, "int")
    return None if found is None else int(found)
