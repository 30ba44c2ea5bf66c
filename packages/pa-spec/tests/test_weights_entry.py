"""Entries of a safetensors header: each is checked, and against the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from header_reading import SHAPES, messages
from safetensors_writer import header_of


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "F17"}, 'dtype: expected an element type of the format, got "F17"'),
        ({"dtype": 3}, "dtype: expected an element type of the format, got 3"),
        ({"dtype": ["F16"]}, 'dtype: expected an element type of the format, got ["F16"]'),
        (
            {"shape": [2, -3]},
            "shape: expected a list of at most 64 extents from 0, together at most",
        ),
        ({"shape": [2, True]}, "shape: expected a list"),
        ({"shape": [2, 3.0]}, "shape: expected a list"),
        ({"shape": ["2", 3]}, "shape: expected a list"),
        ({"shape": [2**62, 2**62]}, "shape: expected a list"),
        ({"shape": [0, 2**62, 2**62]}, "shape: expected a list"),
        ({"shape": [1] * 65}, "shape: expected a list"),
        ({"shape": None}, "shape: expected a list"),
        ({"data_offsets": [12, 0]}, "data_offsets: expected two offsets, the second not before"),
        ({"data_offsets": [-1, 12]}, "data_offsets: expected two offsets"),
        ({"data_offsets": [0, 12, 24]}, "data_offsets: expected two offsets"),
        ({"data_offsets": [0, 2**64]}, "data_offsets: expected two offsets"),
        ({"data_offsets": {}}, "data_offsets: expected two offsets"),
    ],
)
def test_malformed_entry_is_reported_once_with_its_tensor(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    header = header_of(SHAPES)
    header["a"] |= change

    found = messages(tmp_path, header, 22)

    assert len(found) == 1
    assert found[0].startswith(f"w.safetensors: a: {said}")
    assert found[0].endswith("(weights.header_entry)")


@pytest.mark.parametrize("entry", [None, [], "F16", 7, {"shape": [1], "data_offsets": [0, 2]}])
def test_entry_that_is_no_description_is_reported(entry: object, tmp_path: Path) -> None:
    header = header_of(SHAPES) | {"a": entry}

    found = messages(tmp_path, header, 22)

    assert len(found) == 1
    assert "a: entry: expected an object with dtype, shape and data_offsets, got" in found[0]


@pytest.mark.parametrize("metadata", [[], "pt", {"format": 3}, {"format": {"x": "y"}}])
def test_metadata_that_is_no_text_is_reported(metadata: object, tmp_path: Path) -> None:
    header = header_of(SHAPES) | {"__metadata__": metadata}

    found = messages(tmp_path, header, 22)

    assert len(found) == 1
    assert "__metadata__: entry: expected an object of strings, got" in found[0]


def test_bytes_that_do_not_fit_the_shape_are_reported(tmp_path: Path) -> None:
    header = header_of(SHAPES)
    header["a"]["shape"] = [2, 4]

    found = messages(tmp_path, header)

    assert found == [
        (
            "w.safetensors: a: data_offsets: expected 16 bytes, got 12 bytes for [2, 4] of F16 "
            "(weights.byte_count)"
        )
    ]


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([10, 18], "b: data_offsets: expected to begin at byte 12, where the tensor before ends"),
        ([16, 24], "c: data_offsets: expected to begin at byte 12, where the tensor before ends"),
        ([1000, 1008], "c: data_offsets: expected to begin at byte 12"),
    ],
)
def test_overlaps_and_gaps_are_reported_where_they_begin(
    offsets: list[int], said: str, tmp_path: Path
) -> None:
    header = header_of(SHAPES)
    header["b"]["data_offsets"] = offsets
    header["c"]["data_offsets"] = [14, 16] if offsets[0] > 12 else [20, 22]

    found = messages(tmp_path, header, 22)

    assert len(found) == 1
    assert found[0].startswith(f"w.safetensors: {said}")
    assert found[0].endswith("(weights.offsets)")


@pytest.mark.parametrize("is_first", [True, False])
def test_tensor_without_elements_lies_before_the_one_that_begins_with_it(
    tmp_path: Path, *, is_first: bool
) -> None:
    empty = {"e": {"dtype": "F16", "shape": [0, 3], "data_offsets": [12, 12]}}
    header = empty | header_of(SHAPES) if is_first else header_of(SHAPES) | empty

    assert messages(tmp_path, header, 22) == []


@pytest.mark.parametrize("data_bytes", [0, 21, 23, 10**6])
def test_data_that_is_cut_off_or_has_more_behind_it_is_reported(
    data_bytes: int, tmp_path: Path
) -> None:
    found = messages(tmp_path, header_of(SHAPES), data_bytes)

    assert found == [
        (
            f"w.safetensors: data: expected 22 bytes of data, got {data_bytes} bytes "
            "(weights.data_length)"
        )
    ]


def test_name_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    text = json.dumps(header_of(SHAPES)).encode()
    again = text[:-1] + b',"a":' + json.dumps(header_of(SHAPES)["a"]).encode() + b"}"

    found = messages(tmp_path, again, 22)

    assert found == [
        "w.safetensors: a: a: expected each name once, got it again (weights.duplicate_name)"
    ]
