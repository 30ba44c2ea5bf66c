"""How a generated vector file is written: short values on one line, numbers as short as exact."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

WIDTH = 100


def vector_text(data: dict[str, Any]) -> str:
    """Return the text of a file: JSON with words for what JSON has no number for."""
    return _text(data, 0) + "\n"


def _text(value: Any, depth: int) -> str:
    compact = _compact(value)
    if len(compact) + 2 * depth <= WIDTH or not isinstance(value, dict | list):
        return compact
    inner = " " * 2 * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_text(each, depth + 1)}" for key, each in value.items()]
    else:
        parts = list(_lines(value, depth + 1))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{body}\n{' ' * 2 * depth}{closing}"


def _lines(values: list[Any], depth: int) -> Iterator[str]:
    """Yield a list's lines: one for each value, as many as fit of plain numbers and words."""
    line: list[str] = []
    for value in values:
        text = _text(value, depth)
        is_plain = not isinstance(value, dict | list)
        room = WIDTH - 2 * depth - sum(len(each) + 2 for each in line)
        if line and not (is_plain and len(text) < room):
            yield ", ".join(line)
            line = []
        line.append(text)
        if not is_plain:
            yield text
            line = []
    if line:
        yield ", ".join(line)


def _compact(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {_compact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_compact, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return json.dumps(str(value))
    return str(int(value)) if value == int(value) else repr(float(f"{value:.9g}"))
