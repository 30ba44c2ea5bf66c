"""Safetensors headers: what is wrong is said once, and nothing behind a header is read."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from header_reading import SHAPES, messages, read
from hypothesis import given, settings
from hypothesis import strategies as st
from pa_spec.checker import Findings
from pa_spec.checker.huggingface.weights.safetensors_header import (
    MAX_HEADER_BYTES,
    MAX_QUOTES,
    read_header,
)
from pa_spec.contract.finding_kind import Severity
from safetensors_writer import header_of, write_header


def test_tensors_are_read_with_their_shapes_and_bytes(tmp_path: Path) -> None:
    write_header(tmp_path / "w", header_of(SHAPES) | {"__metadata__": {"format": "pt"}})

    header, found = read(tmp_path / "w")

    assert found == []
    assert header is not None
    assert {name: each.shape for name, each in header.tensors.items()} == SHAPES
    assert [each.num_bytes for each in header.tensors.values()] == [12, 8, 2]


def test_file_of_a_hundred_gigabytes_is_read_in_no_time(tmp_path: Path) -> None:
    write_header(tmp_path / "w", header_of({"a": (10**11 // 2,)}))
    start = time.perf_counter()
    tracemalloc.start()

    header, found = read(tmp_path / "w")

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == []
    assert header is not None
    assert header.tensors["a"].num_bytes == 10**11
    assert time.perf_counter() - start < 1
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes in all"),
        (b"\x02\x00\x00", "3 bytes in all"),
        (b"\x02" + b"\0" * 7 + b"{", "9 bytes in all"),
        (b"\x02" + b"\0" * 7 + b"[]", "a list of 0"),
        (b"\x02" + b"\0" * 7 + b"42", "42"),
        (b"\x03" + b"\0" * 7 + b"{\xff}", "byte 0xff at 1: not UTF-8"),
        (b"\x03" + b"\0" * 7 + b'{"}', "Unterminated string starting at: line 1 column 2 (char 1)"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "a Git LFS pointer in the file's place",
        ),
    ],
)
def test_file_of_another_format_is_unreadable(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(content)

    header, found = read(tmp_path / "w")

    expected = "8 bytes of length, then a header of that length: a JSON object in UTF-8"
    assert header is None
    assert found == [f"w: header: expected {expected}, got {said} (weights.not_safetensors)"]


def test_header_that_claims_more_than_its_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes((2**60).to_bytes(8, "little") + b"{}")

    header, found = read(tmp_path / "w")

    assert header is None
    assert found == [
        (
            "w: header: expected at most 2 bytes, the rest of the file, "
            "got 1152921504606846976 bytes (weights.header_length)"
        )
    ]


def test_header_over_the_limit_of_the_format_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "w").open("wb") as opened:
        opened.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{")
        opened.truncate(2 * MAX_HEADER_BYTES)

    header, found = read(tmp_path / "w")

    assert header is None
    assert found == [
        "w: header: expected at most 100000000 bytes, got 100000001 bytes (weights.header_length)"
    ]


def test_header_of_nothing_but_strings_is_not_parsed(tmp_path: Path) -> None:
    write_header(tmp_path / "w", b"{" + b'"",' * (MAX_QUOTES // 2 + 1) + b"}")

    header, found = read(tmp_path / "w")

    assert header is None
    assert found == [
        (
            "w: header: expected at most 4000000 quotation marks, got 4000002 quotation marks "
            "(weights.header_length)"
        )
    ]


def test_not_a_number_is_no_json(tmp_path: Path) -> None:
    found = messages(tmp_path, b'{"a":{"dtype":"F16","shape":[NaN],"data_offsets":[0,2]}}')

    assert len(found) == 1
    assert "got NaN, which is no JSON (weights.not_safetensors)" in found[0]


def test_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    found = messages(tmp_path, b'{"a":' + b"[" * 100_000)

    assert len(found) == 1
    assert "nested more than 100 levels deep (weights.not_safetensors)" in found[0]


def test_name_that_cannot_be_printed_is_escaped_and_cut(tmp_path: Path) -> None:
    header = {"\x1b[2J" + "x" * 1000 + "\ud800": 3}

    (found,) = messages(tmp_path, header, 0)

    assert found.isprintable()
    assert "\\x1b[2J" in found
    assert len(found) < 400
    found.encode("utf-8")


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_folder, "a folder"),
        (_loop, "Too many levels of symbolic links"),
        (_pipe, "a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    ],
)
def test_what_is_no_file_is_unreadable(
    make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path / "w")

    header, found = read(tmp_path / "w")

    assert header is None
    assert found == [f"w: w: expected a file that can be read, got {said} (file.unreadable)"]


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read_or_reported(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)

    header, found = read(path)

    assert header is not None or len(found) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F16", "F32", "F4", "I64"]) | JSON,
        "shape": st.lists(st.integers(0, 4), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(0, 60), min_size=2, max_size=2) | JSON,
    }
)


@given(st.dictionaries(st.text(max_size=4), ENTRY | JSON, max_size=4), st.integers(0, 64))
@settings(deadline=None)
def test_header_without_findings_describes_all_of_its_file(
    tmp_path_factory: Any, header: dict[str, Any], data_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "header"
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data_bytes))
    findings = Findings()

    read_in = read_header(path, findings, "header")

    assert all(each.severity in (Severity.VIOLATION, Severity.UNREADABLE) for each in findings)
    if not list(findings):
        assert read_in is not None
        assert sum(each.num_bytes for each in read_in.tensors.values()) == data_bytes
