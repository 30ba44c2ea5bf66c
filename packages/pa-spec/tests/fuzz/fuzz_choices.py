"""A stream of choices read from a fuzzer's bytes; when they end, every choice is the first one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar

T = TypeVar("T")

MAX_DEPTH = 60

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 4, 7, 8, 16, 64, 100, 128, 1000, 4096, 2**31 - 1, 2**31),
    *(2**53 + 1, 2**63, -(2**63), 10**400, 0.0, -0.0, 0.5, 1.0, 1.5, 1e-30, 1e30, 1e308),
    *(float("nan"), float("inf"), "", "1", "16", "default", "yarn", "llama3", "longrope", "linear"),
    *("full_attention", "sliding_attention", "float16", "bfloat16", "\x1b[2J", "\ud800", "%d"),
    *([], [1], [1, 2, 3], ["full_attention", "sliding_attention"], [[]], {}, {"a": 1}, [None]),
)
"""Values that are at the edge of something somewhere."""


class Choices:
    """Reads a fuzzer's input as choices."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, limit: int) -> int:
        """Return a number below a limit."""
        size = 1 if limit <= 256 else 2
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "little") % limit

    def one_of(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.number(len(values))]

    def value(self, depth: int = 0) -> Any:
        """Return a value that JSON has, mostly an odd one."""
        kind = self.number(8)
        if kind == 0:
            return self.number(2**16)
        if kind == 1 and depth < MAX_DEPTH:
            return [self.value(depth + 1) for _ in range(self.number(5))]
        return deepcopy(self.one_of(ODD))

    def rest(self, most: int) -> bytes:
        """Return bytes as they are."""
        taken = self._data[self._at : self._at + most]
        self._at += most
        return taken


def changed(base: Any, choices: Choices, keys: Sequence[str]) -> Any:
    """Return a copy of a JSON object with some values changed, keys removed, or keys added."""
    document = json.loads(json.dumps(base))
    for _ in range(1 + choices.number(6)):
        inner = document
        while True:
            objects = [value for value in inner.values() if isinstance(value, dict)]
            if not objects or choices.number(3):
                break
            inner = choices.one_of(objects)
        action = choices.number(4)
        names = sorted(inner)
        if action == 0 and names:
            del inner[choices.one_of(names)]
        elif action == 1 or not names:
            inner[choices.one_of(keys)] = choices.value()
        else:
            inner[choices.one_of(names)] = choices.value()
    return document
