"""External data and stored tensors: where they are and how long, without reading them."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.element import lengths_of, spellings
from pa_spec.checker.graph.walk import StoredTensor
from pa_spec.checker.tensor_text import name_text

_BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "float64": 64, "complex64": 64,
    "complex128": 128, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int64": 64, "uint64": 64, "bool": 8, "float8e4m3fn": 8, "float8e4m3fnuz": 8,
    "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8, "int4": 4, "uint4": 4,
    "float4e2m1": 4, "int2": 2, "uint2": 2,
}  # fmt: skip

# Where a tensor's elements may be listed, and the types of which they may be.
_FIELDS = {
    "float_data": ("float32", "complex64"),
    "int32_data": (
        "int32", "int16", "int8", "int4", "int2", "uint16", "uint8", "uint4", "uint2", "bool",
        "float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
        "float8e8m0", "float4e2m1",
    ),
    "int64_data": ("int64",),
    "double_data": ("float64", "complex128"),
    "uint64_data": ("uint64", "uint32"),
    "string_data": ("string",),
}  # fmt: skip


def check_stored_tensors(
    tensors: list[StoredTensor], model: Path, file: str, findings: Findings
) -> frozenset[str]:
    """Check dimensions, lengths of data, and external files of a model's tensors.

    Returns the places of those that were reported.
    """
    folder = _Folder(model)
    wrong: set[str] = set()
    for each in tensors:
        before = findings.total
        _check_stored(each, folder, Place(file, each.place), findings)
        if findings.total != before:
            wrong.add(each.place)
    return frozenset(wrong)


def _check_stored(each: StoredTensor, folder: _Folder, place: Place, findings: Findings) -> None:
    tensor, name = each.tensor, name_text(each.tensor.name)
    if not _dims_fit(tensor, place, findings):
        return
    is_external = tensor.data_location == tensor.EXTERNAL
    stored = [field for field in ("raw_data", *_FIELDS) if len(getattr(tensor, field))]
    if len(stored) + is_external > 1:
        found = " and ".join((*stored, *["external data"][:is_external]))
        findings.add("graph.tensor_size", place, name, found, case="once")
    elif is_external:
        folder.check(tensor, place, findings)
    elif stored == ["raw_data"]:
        needed, length = stored_bytes(tensor), len(tensor.raw_data)
        if needed is not None and needed != length:
            values = {"case": "data", "most": needed}
            findings.add("graph.tensor_size", place, name, f"{length} bytes", **values)
    else:
        _check_fields(tensor, place, stored, findings)


def _check_fields(tensor: Any, place: Place, stored: list[str], findings: Findings) -> None:
    """Check the numbers of a tensor that is stored as a list of them."""
    kind = spellings().get(tensor.data_type, "")
    field = next((each for each, kinds in _FIELDS.items() if kind in kinds), "")
    if not field:
        return
    # Complex numbers are two each; types below a byte share one.
    needed = prod(tensor.dims) * (2 if kind.startswith("complex") else 1)
    share = 8 // min(_BITS.get(kind, 8), 8)
    needed = (needed + share - 1) // share
    found = len(getattr(tensor, field))
    if needed != found or stored not in ([], [field]):
        actual = f"{found} there" if stored in ([], [field]) else f"{stored[0]}"
        values = {"case": "list", "most": needed, "field": field}
        findings.add("graph.tensor_size", place, name_text(tensor.name), actual, **values)


def stored_bytes(tensor: Any) -> int | None:
    """Return the bytes that a tensor's shape and type need, None for types without a width."""
    bits = _BITS.get(spellings().get(tensor.data_type, ""))
    return None if bits is None else (prod(tensor.dims) * bits + 7) // 8


def _dims_fit(tensor: Any, place: Place, findings: Findings) -> bool:
    if lengths_of(tensor.dims) is None:
        found = f"[{name_text(', '.join(map(str, tensor.dims)))}]"
        findings.add("graph.tensor_size", place, name_text(tensor.name), found, case="dims")
        return False
    return True


class _Folder:
    """The folder of one model: external files are looked up once each.

    Links are followed only as far as the model's own file shows: a store that links every file of
    a folder into one other folder is served, a link to anywhere else is not.
    """

    def __init__(self, model: Path) -> None:
        self._folder = model.parent
        self._sizes: dict[str, int | None] = {}
        self._allowed = tuple(
            Path(os.path.realpath(each))
            for each in (model.parent, Path(os.path.realpath(model)).parent)
        )

    def check(self, tensor: Any, place: Place, findings: Findings) -> None:
        """Report what is wrong with one tensor's reference; each mistake once."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location, name = entries.get("location", ""), name_text(tensor.name)
        if not self._is_inside(location):
            findings.add("graph.external_path", place, name, repr(name_text(location)))
            return
        is_new = location not in self._sizes
        if is_new:
            self._sizes[location] = self._measure(location)
        size = self._sizes[location]
        if size is not None:
            _check_range(tensor, entries, size, _At(findings, place))
        elif is_new:
            # Thousands of tensors lie in one file: it is missing once.
            findings.add("graph.external_missing", place, name_text(location), "no such file")

    def _is_inside(self, location: str) -> bool:
        if not location or "\0" in location:
            return False
        parts = PurePosixPath(location.replace("\\", "/")).parts
        if _leaves(parts) or location.startswith(("/", "\\")) or PureWindowsPath(location).drive:
            return False
        try:
            real = Path(os.path.realpath(self._folder / location))
        except (OSError, ValueError):
            return True
        return any(real.is_relative_to(each) for each in self._allowed)

    def _measure(self, location: str) -> int | None:
        try:
            path = self._folder / location
            return path.stat().st_size if path.is_file() else None
        except (OSError, ValueError):
            return None


def _leaves(parts: tuple[str, ...]) -> bool:
    """Whether the parts of a path lead, at any point of it, above where it starts."""
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else part != "."
        if depth < 0:
            return True
    return False


class _At:
    """Where the findings about one tensor go."""

    def __init__(self, findings: Findings, place: Place) -> None:
        self._findings = findings
        self._place = place

    def add(self, name: str, actual: str, case: str, most: int = 0) -> None:
        self._findings.add("graph.external_range", self._place, name, actual, case=case, most=most)


def _check_range(tensor: Any, entries: dict[str, str], size: int, at: _At) -> None:
    """Check offset and length against the file and against what the tensor needs."""
    name, needed = name_text(tensor.name), stored_bytes(tensor)
    numbers = {"offset": 0, "length": needed or 0}
    for key in tuple(numbers.keys() & entries.keys()):
        number = _number(entries[key])
        if number is None:
            at.add(name, f"{key} {name_text(entries[key])!r}", "number")
            return
        numbers[key] = number
    offset, length = numbers["offset"], numbers["length"]
    if needed is not None and length != needed:
        at.add(name, f"length {length}", "size", needed)
    elif offset + length > size:
        at.add(name, f"bytes {offset} to {offset + length}", "end", size)


def _number(text: str) -> int | None:
    """Read a number as it is written in decimal digits, within 64 bits."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return int(text)
