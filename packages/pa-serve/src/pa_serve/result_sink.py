"""Where results go, one by one, in the order of the input."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Protocol, final

from pa_serve.exit_status import one_line
from pa_serve.result import Result
from pa_serve.result_file import ResultFile

_PROMPT_COLUMNS = 96
"""Columns of a prompt that stands above its answer; it is there to recognise, not to read."""


class ResultSink(Protocol):
    """Takes results in order, then hears once how the run ended."""

    def write(self, result: Result) -> None:
        """Put one result where the user finds it, even if the run is killed afterwards."""

    def end(self, *, complete: bool) -> Path | None:
        """Finish; return the file that holds the results, None when there is none."""


@final
class FileSink:
    """Writes JSON lines to a file that is replaced when the run is complete."""

    def __init__(self, path: Path) -> None:
        self._file = ResultFile(path)

    def write(self, result: Result) -> None:
        """Add a line."""
        self._file.write(result.as_json())

    def end(self, *, complete: bool) -> Path | None:
        """Replace the target by a complete run's lines; save an incomplete run's lines."""
        return self._file.publish() if complete else self._file.keep()


@final
class JsonSink:
    """Prints JSON lines."""

    def write(self, result: Result) -> None:
        """Print a line."""
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        print(result.as_json(ascii_only=ascii_only), flush=True)

    def end(self, *, complete: bool) -> Path | None:  # noqa: ARG002 - everything is out already
        """Do nothing."""
        return None


@final
class TextSink:
    """Prints the text of each answer, below its prompt when there are several."""

    def __init__(self, *, shows_prompts: bool) -> None:
        self._shows_prompts = shows_prompts

    def write(self, result: Result) -> None:
        """Print an answer; of one that failed, that it did, where prompts are shown."""
        if self._shows_prompts:
            text = result.text if result.error is None else f"[error] {result.error}"
            prompt = textwrap.shorten(one_line(result.given), _PROMPT_COLUMNS, placeholder=" …")
            _print(f"> {prompt}\n{text.strip()}\n")
        elif result.error is None:
            _print(result.text)

    def end(self, *, complete: bool) -> Path | None:  # noqa: ARG002 - everything is out already
        """Do nothing."""
        return None


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)
