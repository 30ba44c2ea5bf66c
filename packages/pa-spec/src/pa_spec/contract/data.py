"""Reads the files of spec/ that travel inside this package, and turns their rows into records.

Readers are imported where they read: importing the package must stay cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pa_spec.errors import InputUnusable

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

RecordT = TypeVar("RecordT")


def _folder() -> Traversable:
    from importlib.resources import files

    return files("pa_spec") / "_contract"


def text(path: str) -> str:
    """Return a file of spec/, named by its path there ("engine/outcomes.toml")."""
    try:
        return _folder().joinpath(*path.split("/")).read_text("utf-8")
    except FileNotFoundError as error:
        raise InputUnusable(f"spec/{path}", "is not part of the contract") from error


def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the names of a folder's files with that suffix, sorted, without it."""
    entries = _folder().joinpath(folder).iterdir()
    found = (entry.name for entry in entries if entry.name.endswith(suffix))
    return tuple(sorted(name.removesuffix(suffix) for name in found))


@cache
def table(path: str) -> Mapping[str, Any]:
    """Return a TOML file of spec/ as a mapping, read once."""
    import tomllib

    return MappingProxyType(tomllib.loads(text(path)))


@cache
def document(path: str) -> Mapping[str, Any]:
    """Return a JSON file of spec/ as a mapping, read once."""
    import json

    return MappingProxyType(json.loads(text(path)))


def records(kind: type[RecordT], rows: Sequence[Mapping[str, Any]]) -> tuple[RecordT, ...]:
    """Build one frozen record for each row; lists become tuples, names become enum members.

    Raises InputUnusable when a row has a key that the record has not, or lacks one.
    """
    hints = get_type_hints(kind)
    return tuple(_record(kind, hints, row) for row in rows)


def by_id(rows: Sequence[RecordT], attribute: str = "id") -> Mapping[str, RecordT]:
    """Index records by their id, which must be unique."""
    found: dict[str, RecordT] = {}
    for row in rows:
        key = getattr(row, attribute)
        if key in found:
            raise InputUnusable(f"spec: {key}", "is defined twice", "each id once")
        found[key] = row
    return MappingProxyType(found)


def _record(kind: type[RecordT], hints: Mapping[str, Any], row: Mapping[str, Any]) -> RecordT:
    try:
        return kind(**{key: _converted(hints[key], value) for key, value in row.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise InputUnusable(f"spec: {kind.__name__} {dict(row)}", f"{error}") from error


def _converted(hint: Any, value: Any) -> Any:
    if get_origin(hint) is UnionType:
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        return tuple(_converted(get_args(hint)[0], each) for each in value)
    if isinstance(value, dict):
        return MappingProxyType(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[value] if value in hint.__members__ else hint(value)
    return value
