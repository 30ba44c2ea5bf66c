"""Headers are accepted exactly where the safetensors library accepts them.

Method: headers that are right and then changed, and headers drawn freely, are written with their
data and given to both. Where we are stricter on purpose, the test does not go: beyond 64 axes and
400,000 tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pa_spec.checker import Findings
from pa_spec.checker.huggingface.weights.header_entry import BITS
from pa_spec.checker.huggingface.weights.safetensors_header import read_header

TYPES = st.sampled_from(sorted(BITS))
VALUE = st.none() | st.booleans() | st.integers(-2, 2**65) | st.text(max_size=3)
SHAPE = st.lists(st.integers(0, 4), max_size=3)
FREE = st.fixed_dictionaries(
    {
        "dtype": TYPES | VALUE,
        "shape": SHAPE | st.lists(VALUE, max_size=3) | VALUE,
        "data_offsets": st.lists(st.integers(0, 40), max_size=3) | VALUE,
    },
    optional={"extra": VALUE},
)


@st.composite
def right_headers(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Tensors one behind the other, in any order of names; and the bytes of their data."""
    header: dict[str, Any] = {}
    begin = 0
    for name in draw(st.lists(st.text("abc", max_size=2), unique=True, max_size=4)):
        element_type, shape = draw(TYPES), draw(SHAPE)
        bits = BITS[element_type]
        for extent in shape:
            bits *= extent
        end = begin + bits // 8
        header[name] = {"dtype": element_type, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    if draw(st.booleans()):
        header["__metadata__"] = draw(st.dictionaries(st.text(max_size=2), st.text(max_size=2)))
    return header, begin


def library_accepts(path: Path) -> bool:
    try:
        with safetensors.safe_open(str(path), framework="numpy"):
            return True
    except safetensors.SafetensorError:
        return False


def compare(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "w.safetensors")
        path.write_bytes(content)
        findings = Findings()
        read_header(path, findings, path.name)
        said = [str(each) for each in findings]
        assert library_accepts(path) == (not said), said


def file_of(header: object, data_bytes: int) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


@given(right_headers(), st.sampled_from([-1, 0, 0, 0, 1]))
@settings(deadline=None, max_examples=200)
def test_right_headers_with_data_that_fits_or_not(
    drawn: tuple[dict[str, Any], int], surplus: int
) -> None:
    header, data_bytes = drawn
    compare(file_of(header, max(data_bytes + surplus, 0)))


@given(right_headers(), st.data())
@settings(deadline=None, max_examples=300)
def test_one_value_of_a_right_header_changed(
    drawn: tuple[dict[str, Any], int], data: st.DataObject
) -> None:
    header, data_bytes = drawn
    names = [name for name in header if name != "__metadata__"]
    if not names:
        return
    entry = header[data.draw(st.sampled_from(names))]
    key = data.draw(st.sampled_from(["dtype", "shape", "data_offsets"]))
    entry[key] = data.draw(
        {"dtype": TYPES, "shape": SHAPE, "data_offsets": st.lists(st.integers(0, 40), max_size=3)}[
            key
        ]
        | VALUE
    )
    compare(file_of(header, data_bytes))


@given(st.dictionaries(st.text("ab", max_size=2), FREE | VALUE, max_size=3), st.integers(0, 40))
@settings(deadline=None, max_examples=200)
def test_headers_drawn_freely(header: dict[str, Any], data_bytes: int) -> None:
    compare(file_of(header, data_bytes))


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x02" + bytes(7) + b"{}")
@example(b"\x03" + bytes(7) + b" {}")
@example(b"\x04" + bytes(7) + b"{}  ")
@example(b"\x04" + bytes(7) + b"{}\0\0")
@example((2**60).to_bytes(8, "little") + b"{}")
@settings(deadline=None, max_examples=200)
def test_any_bytes(content: bytes) -> None:
    compare(content)
