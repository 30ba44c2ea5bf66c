"""Target: JSON text. What the standard library reads is read alike, up to the limits."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pa_spec.checker.json_text import NotJson, duplicate_keys, parse_json

FOUND: tuple[bytes, ...] = ()


def seeds() -> Iterator[bytes]:
    """Yield texts with everything that JSON has."""
    yield b'{"a": [1, -2.5e-3, "x\\u00e9\\n", null, true, false], "b": {"c": {}}}'
    yield b'{"a": 1, "a": 2, "b": NaN, "c": [Infinity, -Infinity]}'
    yield b"[" * 101 + b"]" * 101
    yield b"\xef\xbb\xbf{}"
    yield b'{"a": ' + b"1" * 400 + b"}"
    yield from FOUND


def one_input(data: bytes) -> None:
    """Parse, and compare with the standard library's own reading."""
    try:
        parsed = parse_json(data, allows_not_finite=True)
    except NotJson:
        return
    again = json.loads(data.decode("utf-8"))
    assert json.dumps(again) == json.dumps(parsed.value)
    for place, key in duplicate_keys(parsed):
        assert place.endswith(key)
