"""Goal: whatever bytes a file has, reading it ends soon, in a value or in a finding."""

from __future__ import annotations

import json
import os
import tomllib
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pa_spec.checker import Findings
from pa_spec.checker.json_text import NotJson, parse_json
from pa_spec.checker.source import MAX_JSON_BYTES, MAX_TOML_BYTES, read_json, read_toml

MANY = 1_000_000


def read(
    path: Path, content: bytes | str, *, is_strict: bool = False
) -> tuple[Mapping[str, Any] | None, list[str]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    findings = Findings()
    value = read_json(path, findings, "some.json", is_strict=is_strict)
    return value, [str(each) for each in findings]


def test_object_is_returned_and_nothing_is_found(tmp_path: Path) -> None:
    assert read(tmp_path / "a.json", '{"a": [1, 2.5, "x", null, true]}') == (
        {"a": [1, 2.5, "x", None, True]},
        [],
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"hello", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1', "Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (b"{'a': 1}", "Expecting property name enclosed in double quotes"),
        (b'\xef\xbb\xbf{"a": 1}', "a byte order mark before the text"),
        (b'{"a": "\xff"}', "byte 0xff at 7: not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "byte 0xff at 0: not UTF-8"),
        (b"[" * MANY, "nested more than 100 levels deep"),
        (b'{"a":' * MANY, "nested more than 100 levels deep"),
        (b'{"a":' + b"9" * MANY + b"}", "an integer of 1000000 digits"),
        (b'{"a":' + b"-" + b"9" * 1001 + b"}", "an integer of 1001 digits"),
        (b'{"a": [' + b"0," * 7 * MANY + b"0]}", "more than 6000000 values"),
        (b"[1, 2]", "a list instead of an object"),
        (b'"text"', "a string instead of an object"),
        (b"12", "a number instead of an object"),
        (b"null", "null instead of an object"),
        (b"true", "a truth value instead of an object"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else value[:20],
)
def test_text_that_is_no_object_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    value, found = read(tmp_path / "a.json", content)

    start = "some.json: a.json: expected a JSON object in UTF-8, got "
    assert value is None
    assert len(found) == 1
    assert found[0].startswith(start + reason)
    assert found[0].endswith("(file.not_json)")


def test_brackets_inside_strings_are_not_depth(tmp_path: Path) -> None:
    text = json.dumps({"a": "[" * 500, 'b"\\': "{" * 500})

    assert read(tmp_path / "a.json", text) == (json.loads(text), [])


def test_depth_of_a_hundred_is_read_and_one_more_is_not(tmp_path: Path) -> None:
    deepest = '{"a":' * 100 + "1" + "}" * 100

    assert read(tmp_path / "a.json", deepest)[1] == []
    assert read(tmp_path / "a.json", '{"a":' + deepest + "}")[0] is None


def test_duplicate_keys_are_warned_of_at_their_place_and_the_last_counts(tmp_path: Path) -> None:
    text = '{"a": {"b": 1, "b": 2, "c": 0, "b": 3}, "l": [{}, {"x": 1, "x": 1}]}'
    value, found = read(tmp_path / "a.json", text)

    assert value == {"a": {"b": 3, "c": 0}, "l": [{}, {"x": 1}]}
    assert found == [
        "some.json: a.b: b: expected each key once, got it again (file.duplicate_key)",
        "some.json: l[1].x: x: expected each key once, got it again (file.duplicate_key)",
    ]


def test_duplicate_keys_of_an_object_that_a_duplicate_replaced_are_passed_over(
    tmp_path: Path,
) -> None:
    value, found = read(tmp_path / "a.json", '{"a": {"b": 1, "b": 2}, "a": 5}')

    assert value == {"a": 5}
    assert found == ["some.json: a: a: expected each key once, got it again (file.duplicate_key)"]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_number_that_json_has_not_is_noted_and_strictly_refused(tmp_path: Path, word: str) -> None:
    value, found = read(tmp_path / "a.json", f'{{"a": [0.0, {word}]}}')

    assert value is not None
    assert str(value["a"][1]).lower() in {"nan", "inf", "-inf"}
    assert found == [
        f"some.json: a.json: expected numbers that JSON has, got {word} (file.not_finite)"
    ]
    value, found = read(tmp_path / "a.json", f'{{"a": [0.0, {word}]}}', is_strict=True)
    assert value is None
    assert found[0].endswith(f"got {word}, which is no JSON (file.not_json)")


def test_large_integer_is_kept_as_it_is_written(tmp_path: Path) -> None:
    for digits in (400, 999):
        text = '{"a": 1' + "0" * digits + "}"
        assert read(tmp_path / "a.json", text) == ({"a": 10**digits}, [])


def test_size_of_a_file_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)
    findings = Findings()

    assert read_json(tmp_path / "a.json", findings, "a.json") is None
    (found,) = findings
    assert (found.id, found.expected) == ("file.too_large", f"at most {MAX_JSON_BYTES} bytes")


@pytest.mark.parametrize("kind", ["missing", "folder", "loop", "pipe", "device", "no name"])
def test_what_is_no_regular_file_is_never_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.json"
    expected = {
        "missing": "No such file or directory",
        "folder": "a folder",
        "loop": "Too many levels of symbolic links",
        "pipe": "a named pipe",
        "device": "a device",
        "no name": "embedded null byte",
    }
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    path = Path("/dev/zero") if kind == "device" else path
    path = tmp_path / "a\0b" if kind == "no name" else path
    findings = Findings()

    assert read_json(path, findings, "x") is None
    (found,) = findings
    assert (found.id, found.actual) == ("file.unreadable", expected[kind])


def test_path_without_a_name_is_called_by_itself() -> None:
    findings = Findings()

    assert read_json(Path("/"), findings, "x") is None
    assert [str(each) for each in findings] == [
        "x: /: expected a file that can be read, got a folder (file.unreadable)"
    ]


def test_file_that_claims_no_bytes_is_read_no_further_than_its_limit(tmp_path: Path) -> None:
    findings = Findings()

    assert read_json(Path("/proc/self/status"), findings, "x") is None
    assert [each.id for each in findings] == ["file.not_json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = ", "Invalid value"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = 1\na = 2", "Cannot overwrite a value"),
        (b"a = " + b"9" * 5000, "Exceeds the limit"),
        (b".".join([b"a"] * 21) + b" = 1", "a key of more than 20 parts"),
        (b"[" + b" . ".join([b'"a.b"'] * 20_000) + b"]", "a key of more than 20 parts"),
        (b"a = {" + b".".join([b"'a'"] * 20_000) + b" = 1}", "a key of more than 20 parts"),
    ],
    ids=["value", "utf-8", "deep", "twice", "digits", "parts", "parts of a header", "inline"],
)
def test_text_that_is_no_toml_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    findings = Findings()

    assert read_toml(path, findings, "") is None
    (found,) = findings
    assert found.id == "file.not_toml"
    assert found.actual.startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 20) + " = 1",
        "# " + "." * 1000 + "\na = 1",
        'a = "' + "x." * 1000 + '" # "',
        'a = """\n' + "x.\n" * 1000 + '"""',
        "a = '''" + "x.'" * 1000 + "'''",
        "a = [" + "1.5, " * 1000 + "]",
        "\n".join(f"[a{each}.b.c]" for each in range(1000)),
    ],
    ids=["20 parts", "comment", "text", "lines", "quotes", "numbers", "tables"],
)
def test_points_that_join_no_keys_are_not_counted(tmp_path: Path, text: str) -> None:
    path, findings = tmp_path / "a.toml", Findings()
    path.write_text(text)

    assert read_toml(path, findings, "") == tomllib.loads(text)
    assert list(findings) == []


def test_keys_of_the_largest_file_take_little_memory(tmp_path: Path) -> None:
    # 40 KB of one key took 1.6 GB of the parser.
    path, findings = tmp_path / "a.toml", Findings()
    lines = (f"b{each}.{'.'.join('a' * 19)} = 1" for each in range(5000))
    path.write_text(f"[{'.'.join('c' * 20)}]\n" + "\n".join(lines))
    tracemalloc.start()

    document = read_toml(path, findings, "")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert document is not None
    assert peak_bytes < 150 * 2**20


def test_toml_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path, findings = tmp_path / "a.toml", Findings()
    path.write_bytes(b"a = 1\n" + b"#" * (MAX_TOML_BYTES - 6))

    assert read_toml(path, findings, "") == {"a": 1}
    path.write_bytes(b"#" * (MAX_TOML_BYTES + 1))
    assert read_toml(path, findings, "") is None
    assert [each.id for each in findings] == ["file.too_large"]


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    NUMBERS | st.none() | st.booleans() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@hypothesis_settings(deadline=None)
@given(VALUES, st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}]))
def test_whatever_json_writes_is_read_back(value: object, options: dict[str, Any]) -> None:
    try:
        data = json.dumps(value, **options).encode()
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8
        return

    parsed = parse_json(data, allows_not_finite=False)

    assert parsed.value == value
    assert parsed.duplicates == []


@hypothesis_settings(deadline=None)
@given(st.binary())
@example(b'"\\')
@example(b'{"a":"\\u0000\xf0')
@example(b"-")
def test_any_bytes_are_a_value_or_a_reason(data: bytes) -> None:
    reason = ""
    try:
        parse_json(data, allows_not_finite=True)
    except NotJson as refusal:
        reason = str(refusal) or "none given"

    assert reason != "none given"
