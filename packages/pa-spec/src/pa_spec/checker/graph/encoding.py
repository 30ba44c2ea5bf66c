"""Text of an ONNX file that is no UTF-8, which the protobuf library hands back as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.tensor_text import name_text

_UNUSED = "doc_string"
"""A description; nobody's program depends on it."""

_REPEATED = 3
"""A list, as older releases of the protobuf library call it."""


class _Fields(NamedTuple):
    """Names of a kind of message's fields that hold text or further messages.

    messages: with whether the field is a list.
    """

    texts: tuple[str, ...]
    text_lists: tuple[str, ...]
    messages: tuple[tuple[str, bool], ...]


def check_encoding(model: Any, file: str, findings: Findings) -> bool:
    """Report every text of a model that is no UTF-8, where it stands; whether there is none."""
    before = findings.total
    # A graph holds thousands of types, which are a few dozen.
    right_types: set[bytes] = set()
    stack: list[tuple[Any, str]] = [(model, "")]
    while stack:
        message, place = stack.pop()
        if message.DESCRIPTOR.name == "TypeProto":
            data = message.SerializeToString()
            if data in right_types:
                continue
            right_types.add(data)
        for field, text in _wrong_texts(message):
            right = text.decode("utf-8", "backslashreplace")
            findings.add("graph.not_utf8", Place(file, place), field, f"'{name_text(right)}'")
        # The last that is put on the stack is looked at next.
        stack.extend((each, _within(place, each)) for each in reversed(_messages(message)))
    return findings.total == before


def _wrong_texts(message: Any) -> Iterator[tuple[str, bytes]]:
    fields = _fields(message.DESCRIPTOR)
    for name in fields.texts:
        text = getattr(message, name)
        if isinstance(text, bytes):
            yield name, text
    for name in fields.text_lists:
        for text in getattr(message, name):
            if isinstance(text, bytes):
                yield name, text


def _messages(message: Any) -> list[Any]:
    """Return the messages inside one, in the order of their fields."""
    found: list[Any] = []
    for name, is_list in _fields(message.DESCRIPTOR).messages:
        if is_list:
            found.extend(getattr(message, name))
        elif message.HasField(name):
            found.append(getattr(message, name))
    return found


def _within(place: str, message: Any) -> str:
    """Return the place of what a message says: that of the last thing around it with a name."""
    kind = message.DESCRIPTOR.name
    if kind not in ("NodeProto", "ValueInfoProto", "TensorProto", "FunctionProto"):
        return place
    label = message.name
    if not label and kind == "NodeProto":
        label = next(iter(message.output), "")
    if isinstance(label, bytes):
        label = label.decode("utf-8", "backslashreplace")
    if not label:
        return place
    return f"{place} > {name_text(label)}" if place else name_text(label)


@cache
def _fields(descriptor: Any) -> _Fields:
    texts: list[str] = []
    text_lists: list[str] = []
    messages: list[tuple[str, bool]] = []
    for field in descriptor.fields:
        is_list = bool(
            field.is_repeated if hasattr(field, "is_repeated") else field.label == _REPEATED
        )
        if field.type == field.TYPE_MESSAGE:
            messages.append((field.name, is_list))
        elif field.type == field.TYPE_STRING and field.name != _UNUSED:
            (text_lists if is_list else texts).append(field.name)
    return _Fields(tuple(texts), tuple(text_lists), tuple(messages))
