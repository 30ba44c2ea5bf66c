"""Prompts from options and from files of JSON lines, one record each, bad ones included."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pa_spec import InputUnusable

from pa_serve.sampling import FIELDS, Sampling, read_sampling

Message: TypeAlias = Mapping[str, object]
Given: TypeAlias = str | Sequence[Message]


@dataclass(frozen=True, slots=True)
class PromptLine:
    """One prompt as it was given, or the reason why it is none.

    index: place among all prompts of the run, from 0. place: where it stands, for messages
    ("prompts.jsonl line 3"). given: the prompt's text or its chat messages, None where it could
    not be read. error: None when the line can be served.
    """

    index: int
    place: str
    given: Given | None = None
    sampling: Sampling = field(default_factory=Sampling)
    error: str | None = None


def read_option(index: int, text: str) -> PromptLine:
    """Return the record of a prompt given on the command line; raises InputUnusable."""
    place = f"--prompt {index + 1}"
    try:
        _check_text("prompt", text)
    except InputUnusable as error:
        raise InputUnusable(place, error.problem, error.allowed) from error
    return PromptLine(index, place, text)


def count_lines(path: Path) -> int | None:
    """Return how many lines with text a regular file has, None where only reading it once can say.

    Raises InputUnusable when it cannot be read, is empty, or is no UTF-8 by its first bytes.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        return None  # a pipe: what is read is gone
    with _opened(path) as file:
        start = file.read(4)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputUnusable(str(path), "is UTF-16 text", "JSON lines in UTF-8")
        file.seek(0)
        count = sum(1 for raw in file if raw.removeprefix(codecs.BOM_UTF8).strip())
    if not count:
        raise InputUnusable(str(path), "holds no prompt", "one JSON object a line")
    return count


def read_lines(path: Path, first_index: int, *, chat: bool) -> Iterator[PromptLine]:
    """Yield one record for each line with text, in order; the file is read as far as asked for.

    Raises InputUnusable when the file cannot be read; a bad line is a record with an error.
    """
    index = first_index
    with _opened(path) as file:
        for number, raw in enumerate(file, start=1):
            text = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if text.strip():
                yield _read_line(index, f"{path} line {number}", text, chat=chat)
                index += 1


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        problem = error.strerror or str(error)
        raise InputUnusable(str(path), problem, "a readable file of JSON lines") from error


def _read_line(index: int, place: str, raw: bytes, *, chat: bool) -> PromptLine:
    given: Given | None = None
    try:
        members = _parse(raw)
        given = _read_given(members, chat=chat)
        sampling = read_sampling(members)
        sampling.check_limits()
    except InputUnusable as error:
        return PromptLine(index, place, given, error=str(error))
    return PromptLine(index, place, given, sampling)


def _parse(raw: bytes) -> dict[str, object]:
    """Return the object of one line; raises InputUnusable when there is none."""
    allowed = 'one JSON object in UTF-8, such as {"prompt": "Hello"}'
    try:
        value: object = json.loads(raw.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise InputUnusable("JSON", f"{error.msg} at column {error.colno}", allowed) from error
    except UnicodeDecodeError as error:
        raise InputUnusable("JSON", f"byte {error.start + 1} is not UTF-8", allowed) from error
    except RecursionError as error:
        raise InputUnusable("JSON", "nested too deeply", allowed) from error
    except ValueError as error:  # a number of more digits than Python converts
        raise InputUnusable("JSON", str(error), allowed) from error
    if not isinstance(value, dict):
        raise InputUnusable("JSON", _kind(value), allowed)
    return value


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputUnusable(f"field {twice!r}", "given twice", "each field once")
    return members


def _read_given(members: dict[str, object], *, chat: bool) -> Given:
    """Take the prompt or the messages out of the members, which keep the sampling fields."""
    names = ("prompt", "messages") if chat else ("prompt",)
    found = {name: members.pop(name) for name in names if name in members}
    unknown = [name for name in members if name not in FIELDS]
    if "messages" in unknown:
        raise InputUnusable("field 'messages'", "needs a chat model's template", "with --chat only")
    if unknown:
        allowed = ", ".join((*names, *FIELDS))
        raise InputUnusable(f"field {unknown[0]!r}", "unknown", allowed)
    if len(found) != 1:
        problem = "both given" if found else "missing"
        raise InputUnusable(" and ".join(names), problem, "one of them" if chat else "a text")
    if "prompt" in found:
        return _check_text("prompt", found["prompt"])
    return _check_messages(found["messages"])


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputUnusable(name, _kind(value), "a text of at least one character")
    if not value:
        raise InputUnusable(name, "empty", "a text of at least one character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        problem = f"character {error.start + 1} is half of a surrogate pair"
        raise InputUnusable(name, problem, "text that UTF-8 can spell") from error
    return value


def _check_messages(value: object) -> tuple[Message, ...]:
    allowed = 'a list of {"role": text, "content": text}, at least one'
    if not isinstance(value, list) or not value:
        raise InputUnusable("messages", "empty" if value == [] else _kind(value), allowed)
    for place, message in enumerate(value, start=1):
        if not isinstance(message, dict) or not {"role", "content"} <= set(message):
            raise InputUnusable(f"messages, number {place}", "not a role and a content", allowed)
        _check_text(f"messages, number {place}, role", message["role"])
        if message["content"] != "":
            _check_text(f"messages, number {place}, content", message["content"])
    return tuple(value)


def _kind(value: object) -> str:
    """Say in JSON's words what a value is."""
    words = {str: "a text", list: "a list", dict: "an object", bool: "a boolean"}
    return "null" if value is None else words.get(type(value), "a number")
