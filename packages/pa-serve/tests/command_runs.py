"""Running the command in a test, and what it came to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Record = dict[str, Any]
Lines = Sequence[Record | str]
Read = Callable[[Path], list[Record]]


class Write(Protocol):
    """Writes a file of JSON lines; a text stands for itself."""

    def __call__(self, lines: Lines, name: str = "prompts.jsonl") -> Path: ...


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def records(self) -> list[Record]:
        return records_of(self.out)

    def said(self, *words: str) -> bool:
        """Whether nothing but one line, with all of these words, went to standard error."""
        is_one = self.err.count("\n") == 1 and self.err.endswith("\n")
        return is_one and self.err.startswith("pa ") and all(word in self.err for word in words)


class Runner(Protocol):
    """Runs `pa` with these arguments."""

    def __call__(self, *arguments: object) -> Ran: ...


def records_of(text: str) -> list[Record]:
    """Read JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
