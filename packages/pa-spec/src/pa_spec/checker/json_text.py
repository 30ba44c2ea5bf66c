"""JSON that somebody else wrote: bounded in depth and number of values before it is parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
"""Objects and lists inside each other; real files have about ten."""

MAX_VALUES = 6_000_000
"""Values of one file; a tokenizer of 260,000 words and 600,000 merges has about 2,000,000."""

MAX_DIGITS = 1000
"""Digits of an integer; Python refuses to read more than 4300, and needs quadratic time."""

_UTF8_BOM = b"\xef\xbb\xbf"
# A string, closed or not, so that a match never fails and the scan is linear in the file's size.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")


class NotJson(ValueError):
    """Why a text is no JSON that can be read here."""


@dataclass(slots=True)
class ParsedJson:
    """A parsed text.

    duplicates: objects with the keys that they had more than once. not_finite: the first NaN or
    Infinity as it was written, "" = none.
    """

    value: Any = None
    duplicates: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)
    not_finite: str = ""


def parse_json(data: bytes, *, allows_not_finite: bool) -> ParsedJson:
    """Parse JSON in UTF-8. Raises NotJson."""
    if data.startswith(_UTF8_BOM):
        raise NotJson("a byte order mark before the text")
    _check_size(data)
    parsed = ParsedJson()

    def constant(word: str) -> float:
        if not allows_not_finite:
            raise NotJson(f"{word}, which is no JSON")
        parsed.not_finite = parsed.not_finite or word
        return float(word.replace("Infinity", "inf"))

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            parsed.duplicates.append((found, _repeated(pairs)))
        return found

    try:
        parsed.value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=collect,
            parse_constant=constant,
            parse_int=_integer,
        )
    except NotJson:
        raise
    except UnicodeDecodeError as error:
        raise NotJson(f"byte 0x{data[error.start]:02x} at {error.start}: not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return parsed


def duplicate_keys(parsed: ParsedJson) -> Iterator[tuple[str, str]]:
    """Yield the place of each key that its object has more than once, and the key."""
    wanted = {id(found): keys for found, keys in parsed.duplicates}
    waiting: list[tuple[str, Any]] = [("", parsed.value)] if wanted else []
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            above = f"{place}." if place else ""
            yield from ((f"{above}{key}", key) for key in wanted.get(id(value), ()))
            inner = [(f"{above}{key}", each) for key, each in value.items()]
        else:
            inner = [(f"{place}[{index}]", each) for index, each in enumerate(value)]
        waiting += [each for each in reversed(inner) if isinstance(each[1], dict | list)]


def _check_size(data: bytes) -> None:
    # Also counts what stands inside strings: too many by far is refused in any case.
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > MAX_VALUES:
        raise NotJson(f"more than {MAX_VALUES} values")
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise NotJson(f"nested more than {MAX_DEPTH} levels deep")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits.lstrip('-'))} digits")
    return int(digits)


def _repeated(pairs: list[tuple[str, Any]]) -> list[str]:
    seen: set[str] = set()
    again: dict[str, None] = {}
    for key, _ in pairs:
        if key in seen:
            again[key] = None
        seen.add(key)
    return list(again)
