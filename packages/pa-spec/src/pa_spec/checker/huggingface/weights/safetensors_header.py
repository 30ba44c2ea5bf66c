"""The header of a safetensors file: 8 bytes of length, JSON, and nothing of the data.

The format: an unsigned little-endian length N, N bytes of JSON from tensor name to dtype, shape
and data_offsets (begin and end in the bytes behind the header), then the data without gaps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.weights.header_entry import HeaderEntries, StoredTensor
from pa_spec.checker.json_text import NotJson, duplicate_keys, parse_json
from pa_spec.checker.source import kind_of, reason_of
from pa_spec.checker.text import printable, shortened, shown

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

MAX_QUOTES = 4_000_000
"""Quotation marks of a header; a tensor has 10, so these are 400,000 tensors."""

_LFS_START = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """What one file holds.

    tensors: by name. broken: names whose entries were reported; they are there, of unknown shape.
    """

    tensors: Mapping[str, StoredTensor]
    broken: frozenset[str] = frozenset()


class _Read(NamedTuple):
    """A header's bytes, and how many bytes of data are behind it."""

    header: bytes
    data_bytes: int


def read_header(path: Path, findings: Findings, file: str) -> SafetensorsHeader | None:
    """Read and check a file's header, or return None after reporting why there is none.

    file: what findings call it. Reads the length and the header only, whatever the file's size.
    """
    place = Place(file)
    try:
        if kind := kind_of(path.stat().st_mode):
            findings.add("file.unreadable", place, path.name, kind)
            return None
        read = _read(path, findings, place)
    except (OSError, ValueError) as error:
        findings.add("file.unreadable", place, path.name, reason_of(error))
        return None
    return None if read is None else _entries(read, findings, file)


def _read(path: Path, findings: Findings, place: Place) -> _Read | None:
    # O_NONBLOCK: the file may have become a pipe since it was looked at.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        start = opened.read(len(_LFS_START))
        if start == _LFS_START:
            _refuse(findings, place, "a Git LFS pointer in the file's place")
            return None
        rest = size - LENGTH_BYTES
        if len(start) < LENGTH_BYTES or rest < len("{}"):
            _refuse(findings, place, f"{size} bytes in all")
            return None
        length = int.from_bytes(start[:LENGTH_BYTES], "little")
        case, most = ("file", rest) if length > rest else ("format", MAX_HEADER_BYTES)
        if length > most:
            actual = f"{length} bytes"
            findings.add("weights.header_length", place, "header", actual, case=case, most=most)
            return None
        opened.seek(LENGTH_BYTES)
        return _Read(opened.read(length), rest - length)


def _entries(read: _Read, findings: Findings, file: str) -> SafetensorsHeader | None:
    place = Place(file)
    quotes = read.header.count(b'"')
    if quotes > MAX_QUOTES:
        actual = f"{quotes} quotation marks"
        findings.add(
            "weights.header_length", place, "header", actual, case="entries", most=MAX_QUOTES
        )
        return None
    try:
        parsed = parse_json(read.header, allows_not_finite=False)
    except NotJson as reason:
        _refuse(findings, place, str(reason))
        return None
    if not isinstance(parsed.value, dict):
        _refuse(findings, place, shown(parsed.value))
        return None
    is_whole = True
    for where, key in duplicate_keys(parsed):
        is_whole = False
        name = printable(shortened(key))
        findings.add(
            "weights.duplicate_name", Place(file, printable(shortened(where))), name, "it again"
        )
    entries = HeaderEntries(findings, file)
    tensors = entries.read(parsed.value, read.data_bytes, is_whole=is_whole)
    return SafetensorsHeader(tensors, frozenset(entries.broken))


def _refuse(findings: Findings, place: Place, actual: str) -> None:
    findings.add("weights.not_safetensors", place, "header", actual)
