"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def code(value: object) -> str:
    """Write a word as code; an empty one as the two quotes that it is written with."""
    return f"`{value}`" if value != "" else '`""`'


def codes(values: Iterable[object]) -> str:
    """Write words as code, with commas."""
    return ", ".join(map(code, values))


def yes(value: bool) -> str:  # noqa: FBT001 - the value itself, not a switch
    """Write a truth value."""
    return "yes" if value else "no"


def plain(text: str) -> str:
    """Undo what only Markdown needs, for a terminal."""
    return text.replace("\\|", "|").replace("\\*", "*").replace("`", "")


def _cell(value: object) -> str:
    # Inside code, and only there, an asterisk is an asterisk.
    pieces = str(value).replace("|", "\\|").split("`")
    pieces[::2] = [piece.replace("*", "\\*") for piece in pieces[::2]]
    return "`".join(pieces)
