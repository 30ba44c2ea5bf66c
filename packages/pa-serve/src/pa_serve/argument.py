"""Argument parsing whose every complaint is one line that says what is allowed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from pa_serve.exit_status import ExitStatus, one_line

INT32_MAX = 2**31 - 1


class OneLineParser(argparse.ArgumentParser):
    """A parser that answers bad arguments with one line and status 2, without the usage text."""

    def error(self, message: str) -> NoReturn:
        """Leave with the complaint in one line."""
        text = one_line(message.removeprefix("argument "))
        self.exit(ExitStatus.INPUT_UNUSABLE, f"{self.prog}: {text}\n")


class Once(argparse.Action):
    """Store a value, and refuse the option when it is given a second time."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Store the value under the option's name."""
        del parser, option_string
        given: set[str] = getattr(namespace, "given_once", set())
        if self.dest in given:
            raise argparse.ArgumentError(self, "given twice; allowed: once")
        namespace.given_once = given | {self.dest}
        setattr(namespace, self.dest, values)


def integer(least: int, most: int = INT32_MAX) -> Callable[[str], int]:
    """Return a parser of integers between the bounds, for `add_argument(type=...)`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r}; allowed: an integer from {least} to {most}"
            )
        return value

    return parse


def integer_list(least: int, most: int = INT32_MAX) -> Callable[[str], tuple[int, ...]]:
    """Return a parser of integers with commas between them."""
    parse_one = integer(least, most)

    def parse(text: str) -> tuple[int, ...]:
        return tuple(parse_one(each) for each in text.split(","))

    return parse


def word_list(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of words with commas between them, each one of the allowed."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r}; allowed: {', '.join(allowed)}")
        return words

    return parse
