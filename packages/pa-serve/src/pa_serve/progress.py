"""What a user sees on standard error while prompts are answered."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from rich.progress import Progress


@final
class AnswerProgress:
    """A bar of answered prompts with the tokens so far, drawn on a terminal only, gone at the end.

    total: prompts to answer, None when unknown. says_end: leave one plain line at the end,
    whatever standard error is.
    """

    def __init__(self, total: int | None, *, says_end: bool = False) -> None:
        self._total = total
        self._says_end = says_end
        self._bar: Progress | None = None
        self._num_answers = 0
        self._num_tokens = 0
        self._start = time.perf_counter()

    @contextmanager
    def out_of_the_way(self) -> Iterator[None]:
        """Take the bar off the terminal while something is printed to standard output there."""
        bar = self._bar if sys.stdout.isatty() else None
        if bar is not None:
            bar.stop()
        yield
        if bar is not None:
            bar.start()

    def add_tokens(self, count: int) -> None:
        """Count generated tokens."""
        self._num_tokens += count
        self._draw()

    def add_answer(self) -> None:
        """Count one prompt as done."""
        self._num_answers += 1
        self._draw()

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.add_task("answers", total=self._total, tokens=0)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._says_end:
            seconds = time.perf_counter() - self._start
            sys.stderr.write(
                f"{self._num_answers} answers, {self._num_tokens} tokens in {seconds:.1f} s\n"
            )

    def _draw(self) -> None:
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=self._num_answers, tokens=self._num_tokens)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[tokens]} tokens"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Standard output may be a file: what is printed there must not go through the bar.
        redirect_stdout=False,
        redirect_stderr=False,
    )
