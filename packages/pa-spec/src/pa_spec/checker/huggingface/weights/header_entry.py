"""The entries of a safetensors header: one for each tensor, checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, final

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.text import printable, shortened, shown

METADATA = "__metadata__"
MAX_ELEMENTS = 2**63
MAX_RANK = 64
"""Real tensors have at most 5 axes."""

SHOWN_EXTENTS = 8
"""Numbers of a list that a message spells before it only counts them."""

BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element of each type that the format has."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as a header describes it: element_type in the format's spelling."""

    element_type: str
    shape: tuple[int, ...]
    begin: int
    end: int
    file: str

    @property
    def num_bytes(self) -> int:
        """Bytes that it takes in the file."""
        return self.end - self.begin


@final
class HeaderEntries:
    """Reads one header's entries; broken collects the names of those that were reported."""

    def __init__(self, findings: Findings, file: str) -> None:
        self.broken: set[str] = set()
        self._findings = findings
        self._file = file

    def read(
        self, header: Mapping[str, Any], data_bytes: int, *, is_whole: bool
    ) -> dict[str, StoredTensor]:
        """Return the tensors whose entries are right.

        data_bytes: bytes behind the header. is_whole: no entry was lost, so the layout of the data
        can be checked; an entry that is wrong in itself says nothing about its neighbours.
        """
        tensors = {}
        for name, entry in header.items():
            if name == METADATA:
                self._check_metadata(entry)
                continue
            tensor = self._tensor(name, entry)
            if tensor is None:
                self.broken.add(name)
            else:
                tensors[name] = tensor
        if is_whole and not self.broken:
            self._check_layout(tensors, data_bytes)
        return tensors

    def _tensor(self, name: str, entry: object) -> StoredTensor | None:
        """Build one tensor, or report the first thing that is wrong with its entry."""
        if not isinstance(entry, dict):
            self._malformed(name, "entry", "entry", shown(entry))
            return None
        for key, is_right in _KEYS.items():
            if key not in entry:
                self._malformed(name, "entry", "entry", f"no {key}")
                return None
            if not is_right(entry[key]):
                self._malformed(name, key, key, listed(entry[key]))
                return None
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        tensor = StoredTensor(entry["dtype"], shape, begin, end, self._file)
        bits = prod(shape) * BITS[tensor.element_type]
        if bits != tensor.num_bytes * 8:
            of = f"{listed(entry['shape'])} of {tensor.element_type}"
            actual = f"{tensor.num_bytes} bytes for {of}"
            self._add("weights.byte_count", name, "data_offsets", actual, bytes=-(-bits // 8))
            return None
        return tensor

    def _malformed(self, name: str, case: str, key: str, actual: str) -> None:
        self._add("weights.header_entry", name, key, actual, case=case, rank=MAX_RANK)

    def _add(self, kind: str, name: str, key: str, actual: str, **values: object) -> None:
        place = Place(self._file, printable(shortened(name)))
        self._findings.add(kind, place, key, actual, **values)

    def _check_metadata(self, entry: object) -> None:
        is_right = isinstance(entry, dict) and all(isinstance(each, str) for each in entry.values())
        if not is_right:
            self._malformed(METADATA, "metadata", "entry", shown(entry))

    def _check_layout(self, tensors: Mapping[str, StoredTensor], data_bytes: int) -> None:
        end = 0
        for name, tensor in sorted(tensors.items(), key=lambda each: (each[1].begin, each[1].end)):
            if tensor.begin != end:
                # Only the first: whatever is behind it is displaced with it.
                self._add(
                    "weights.offsets", name, "data_offsets", f"byte {tensor.begin}", begin=end
                )
                return
            end = tensor.end
        if end != data_bytes:
            actual = f"{data_bytes} bytes"
            self._findings.add("weights.data_length", Place(self._file), "data", actual, bytes=end)


def listed(value: object) -> str:
    """Spell a short list of numbers, say what anything else is."""
    if isinstance(value, list) and len(value) <= SHOWN_EXTENTS:
        return f"[{', '.join(shown(each) for each in value)}]"
    return shown(value)


def _is_element_type(value: object) -> bool:
    return isinstance(value, str) and value in BITS


def _is_shape(value: object) -> bool:
    if not isinstance(value, list) or len(value) > MAX_RANK:
        return False
    elements = 1
    for extent in value:
        if type(extent) is not int or not 0 <= extent <= MAX_ELEMENTS:
            return False
        # An extent of 0 hides no overflow: readers multiply the others all the same.
        elements *= max(extent, 1)
        if elements > MAX_ELEMENTS:
            return False
    return True


def _are_offsets(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    begin, end = value
    are_ints = type(begin) is int and type(end) is int
    return are_ints and 0 <= begin <= end <= MAX_ELEMENTS


_KEYS: Mapping[str, Callable[[object], bool]] = {
    "dtype": _is_element_type,
    "shape": _is_shape,
    "data_offsets": _are_offsets,
}
