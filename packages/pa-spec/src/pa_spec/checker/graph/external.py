"""External data and stored tensors: where they are and how long, without reading them."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.element import lengths_of, shown, spellings
from pa_spec.checker.graph.walk import StoredTensor

_BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "float64": 64, "complex64": 64,
    "complex128": 128, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int64": 64, "uint64": 64, "bool": 8, "float8e4m3fn": 8, "float8e4m3fnuz": 8,
    "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8, "int4": 4, "uint4": 4,
    "float4e2m1": 4, "int2": 2, "uint2": 2,
}  # fmt: skip


def check_stored_tensors(
    tensors: list[StoredTensor], model: Path, file: str, findings: Findings
) -> None:
    """Check dimensions, lengths of data, and external files of a model's tensors."""
    folder = _Folder(model)
    for each in tensors:
        place = Place(file, each.place)
        if not _dims_fit(each.tensor, place, findings):
            continue
        if each.tensor.data_location == each.tensor.EXTERNAL:
            folder.check(each.tensor, place, findings)
        elif each.tensor.HasField("raw_data"):
            needed, found = stored_bytes(each.tensor), len(each.tensor.raw_data)
            if needed is not None and needed != found:
                name = shown(each.tensor.name)
                values = {"case": "data", "most": needed}
                findings.add("graph.tensor_size", place, name, f"{found} bytes", **values)


def stored_bytes(tensor: Any) -> int | None:
    """Return the bytes that a tensor's shape and type need, None for types without a width."""
    bits = _BITS.get(spellings().get(tensor.data_type, ""))
    return None if bits is None else (prod(tensor.dims) * bits + 7) // 8


def _dims_fit(tensor: Any, place: Place, findings: Findings) -> bool:
    if lengths_of(tensor.dims) is None:
        found = f"[{shown(', '.join(map(str, tensor.dims)))}]"
        findings.add("graph.tensor_size", place, shown(tensor.name), found, case="dims")
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
        location, name = entries.get("location", ""), shown(tensor.name)
        if not self._is_inside(location):
            findings.add("graph.external_path", place, name, repr(shown(location)))
            return
        is_new = location not in self._sizes
        if is_new:
            self._sizes[location] = self._measure(location)
        size = self._sizes[location]
        if size is not None:
            _check_range(tensor, entries, size, _At(findings, place))
        elif is_new:
            # Thousands of tensors lie in one file: it is missing once.
            findings.add("graph.external_missing", place, shown(location), "no such file")

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
    name, needed = shown(tensor.name), stored_bytes(tensor)
    numbers = {"offset": 0, "length": needed or 0}
    for key in tuple(numbers.keys() & entries.keys()):
        number = _number(entries[key])
        if number is None:
            at.add(name, f"{key} {shown(entries[key])!r}", "number")
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
