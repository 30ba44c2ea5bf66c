"""Reading what somebody else wrote: bounded, and with a finding instead of an exception."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.json_text import NotJson, duplicate_keys, parse_json
from pa_spec.checker.toml_text import NotToml, parse_toml

MAX_JSON_BYTES = 64 * 2**20
"""A tokenizer.json of a large vocabulary has about 32 MiB; nothing else comes near it."""

MAX_TOML_BYTES = 2**18
"""Only people write these; the parser of the standard library is slow and recursive."""

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def kind_of(mode: int) -> str:
    """Say what a file's mode makes it, "" for a regular file."""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "")


def read_bytes(path: Path, findings: Findings, file: str, most: int) -> bytes | None:
    """Return what a regular file holds, or None after reporting why not.

    file: what findings call it (Place.file). A pipe or a device is refused before it is opened,
    because opening or reading it may never end.
    """
    place, name = Place(file), path.name or str(path)
    try:
        found = path.stat()
        if kind_of(found.st_mode):
            findings.add("file.unreadable", place, name, kind_of(found.st_mode))
            return None
        if found.st_size <= most:
            # O_NONBLOCK: the file may have become a pipe since.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
                data = opened.read(most + 1)
            if len(data) <= most:
                return data
    except (OSError, ValueError) as error:
        findings.add("file.unreadable", place, name, reason_of(error))
        return None
    # Files of /proc say that they have no bytes.
    size = f"{found.st_size} bytes" if found.st_size > most else "more than it said"
    findings.add("file.too_large", place, name, size, most=most)
    return None


def reason_of(error: OSError | ValueError) -> str:
    """Say why the system refuses a path, without the path: "Permission denied"."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def read_json(
    path: Path, findings: Findings, file: str, *, is_strict: bool = False
) -> Mapping[str, Any] | None:
    """Return a JSON object, or None after reporting why there is none.

    file: what findings call it (Place.file). is_strict: refuse NaN and Infinity, which Python's
    own reader takes and others do not; otherwise they are floats, and noted. Keys that occur twice
    are reported and the last one counts. Integers may be as large as they are written (up to 1000
    digits), so a range must be checked wherever a number is used.
    """
    data = read_bytes(path, findings, file, MAX_JSON_BYTES)
    if data is None:
        return None
    place, name = Place(file), path.name
    try:
        parsed = parse_json(data, allows_not_finite=not is_strict)
    except NotJson as reason:
        findings.add("file.not_json", place, name, str(reason))
        return None
    if not isinstance(parsed.value, dict):
        spelled = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
        kind = spelled.get(type(parsed.value), "a number")
        findings.add("file.not_json", place, name, f"{kind} instead of an object")
        return None
    for where, key in duplicate_keys(parsed):
        findings.add("file.duplicate_key", Place(file, where), key, "it again")
    if parsed.not_finite:
        findings.add("file.not_finite", place, name, parsed.not_finite)
    return parsed.value


def read_toml(path: Path, findings: Findings, file: str) -> Mapping[str, Any] | None:
    """Return a TOML document, or None after reporting why there is none."""
    data = read_bytes(path, findings, file, MAX_TOML_BYTES)
    if data is None:
        return None
    try:
        return parse_toml(data)
    except NotToml as reason:
        findings.add("file.not_toml", Place(file), path.name, str(reason))
        return None
