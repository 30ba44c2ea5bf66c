"""The answer to one prompt, or why there is none, as a record of the output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pa_serve.prompt_line import Given

_LINE_ENDS = {ord(each): f"\\u{ord(each):04x}" for each in "\u0085\u2028\u2029"}
"""Characters inside texts at which some readers end a line, and their JSON escapes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one prompt.

    error is None for an answer; otherwise only index, place and given say something. The three
    counts are tokens: of the prompt, of the answer, and those of the prompt found in the cache.
    """

    index: int
    place: str
    given: Given | None
    error: str | None = None
    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: str = ""
    prompt_tokens: int = 0
    generated_tokens: int = 0
    cached_prompt_tokens: int = 0

    def as_json(self, *, ascii_only: bool = False) -> str:
        """Return the record as one line of JSON, without its line end."""
        record: dict[str, object] = {"index": self.index, "prompt": self.given}
        if self.error is not None:
            record["error"] = f"{self.place}: {self.error}"
        else:
            record |= {
                "text": self.text,
                "token_ids": self.token_ids,
                "finish_reason": self.finish_reason,
                "usage": {
                    "prompt_tokens": self.prompt_tokens,
                    "generated_tokens": self.generated_tokens,
                    "cached_prompt_tokens": self.cached_prompt_tokens,
                },
            }
        line = json.dumps(record, ensure_ascii=ascii_only)
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:  # a path or a prompt that is no text in UTF-8
            return json.dumps(record)
        return line.translate(_LINE_ENDS)


class InputOrder:
    """Puts results that arrive in any order back into the order of the input.

    `add` returns what became due; `rest` gives, once the run has ended early, what waits behind
    results that will never come.
    """

    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, Result] = {}

    @property
    def num_waiting(self) -> int:
        """Results that wait for an earlier one."""
        return len(self._early)

    def add(self, result: Result) -> Iterator[Result]:
        """Take one result and yield every result that is due now."""
        self._early[result.index] = result
        while self._next in self._early:
            yield self._early.pop(self._next)
            self._next += 1

    def rest(self) -> Iterator[Result]:
        """Yield, in order, what has arrived and is not out yet."""
        for index in sorted(self._early):
            yield self._early.pop(index)
