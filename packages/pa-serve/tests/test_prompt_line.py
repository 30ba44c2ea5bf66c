from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_serve.prompt_line import PromptLine, count_lines, read_lines, read_option
from pa_serve.sampling import Sampling
from pa_spec import InputUnusable


def lines_of(path: Path, content: bytes, *, chat: bool = False) -> list[PromptLine]:
    path.write_bytes(content)
    return list(read_lines(path, 0, chat=chat))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


def test_blank_lines_are_skipped_and_the_others_numbered_in_order(path: Path) -> None:
    lines = lines_of(path, b'{"prompt": "a"}\n\n  \r\n{"prompt": "b"}\r\n{"prompt": "c"}')

    assert [(line.index, line.given) for line in lines] == [(0, "a"), (1, "b"), (2, "c")]
    assert [line.place for line in lines] == [f"{path} line {number}" for number in (1, 4, 5)]
    assert count_lines(path) == 3


def test_a_byte_order_mark_is_no_part_of_the_first_line(path: Path) -> None:
    lines = lines_of(path, codecs.BOM_UTF8 + b'{"prompt": "a"}\n')

    assert lines == [PromptLine(0, f"{path} line 1", "a")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_encoding_is_named(path: Path, encoding: str) -> None:
    path.write_bytes('\ufeff{"prompt": "a"}\n'.encode(encoding))

    with pytest.raises(InputUnusable, match="UTF-16"):
        count_lines(path)


@pytest.mark.parametrize("content", [b"", b"\n \n", codecs.BOM_UTF8])
def test_a_file_without_a_prompt_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(InputUnusable, match="holds no prompt"):
        count_lines(path)


def test_a_file_that_cannot_be_read_is_refused(path: Path) -> None:
    with pytest.raises(InputUnusable, match="No such file"):
        count_lines(path)
    with pytest.raises(InputUnusable, match="directory"):
        count_lines(path.parent)
    with pytest.raises(InputUnusable, match="directory"):
        next(read_lines(path.parent, 0, chat=False))


def test_a_pipe_is_not_read_to_be_counted(path: Path) -> None:
    os.mkfifo(path)

    assert count_lines(path) is None


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"{", "JSON: Expecting property name enclosed in double quotes at column "),
        (b'{"prompt": "a"} x', "JSON: Extra data at column 17"),
        (b'"prompt"', "JSON: a text"),
        (b"[1]", "JSON: a list"),
        (b"null", "JSON: null"),
        (b"3", "JSON: a number"),
        (b'{"prompt": "\xff"}', "JSON: byte 13 is not UTF-8"),
        (b"[" * 100_000, "JSON: "),
        (b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}", "JSON: "),
        (b"{}", "prompt: missing"),
        (b'{"prompt": ""}', "prompt: empty"),
        (b'{"prompt": 7}', "prompt: a number"),
        (b'{"prompt": null}', "prompt: null"),
        (b'{"prompt": "\\ud800"}', "prompt: character 1 is half of a surrogate pair"),
        (b'{"prompt": "a", "prompt": "b"}', "field 'prompt': given twice"),
        (b'{"prompt": "a", "topp": 1}', "field 'topp': unknown; allowed: prompt, max_new_tokens"),
        (b'{"prompt": "a", "top_p": NaN}', "top_p: nan"),
        (b'{"prompt": "a", "temperature": -1}', "temperature: -1"),
        (b'{"prompt": "a", "min_new_tokens": 500}', "min_new_tokens: 500"),
        (b'{"messages": []}', "field 'messages': needs"),
    ],
)
def test_a_bad_line_is_a_record_that_says_why_and_the_next_is_read(
    path: Path, raw: bytes, found: str
) -> None:
    bad, good = lines_of(path, raw + b'\n{"prompt": "good", "top_k": 3}\n')

    assert bad.index == 0
    assert bad.error is not None
    assert bad.error.startswith(found)
    assert "; allowed: " in bad.error
    assert good == PromptLine(1, f"{path} line 2", "good", Sampling(top_k=3))


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"messages": []}', "messages: empty"),
        (b'{"messages": "hi"}', "messages: a text"),
        (b'{"messages": ["hi"]}', "messages, number 1: "),
        (b'{"messages": [{"role": "user"}]}', "messages, number 1: "),
        (b'{"messages": [{"role": "user", "content": 1}]}', "messages, number 1, content: "),
        (b'{"messages": [{"role": "", "content": "a"}]}', "messages, number 1, role: "),
        (
            b'{"messages": [{"role": "user", "content": "a"}], "prompt": "b"}',
            "prompt and messages: both given",
        ),
        (b"{}", "prompt and messages: missing"),
    ],
)
def test_bad_messages_are_a_record_that_says_why(path: Path, raw: bytes, found: str) -> None:
    (line,) = lines_of(path, raw, chat=True)

    assert line.error is not None
    assert line.error.startswith(found)


def test_a_chat_line_has_messages_or_a_prompt(path: Path) -> None:
    messages = b'[{"role": "system", "content": ""}, {"role": "user", "content": "hi"}]'

    first, second = lines_of(path, b'{"messages": ' + messages + b'}\n{"prompt": "a"}', chat=True)

    assert isinstance(first.given, tuple)
    assert [message["role"] for message in first.given] == ["system", "user"]
    assert second.given == "a"


def test_a_prompt_option_without_text_is_refused_by_its_place() -> None:
    assert read_option(2, "a b").place == "--prompt 3"
    with pytest.raises(InputUnusable, match="--prompt 2: empty"):
        read_option(1, "")
    with pytest.raises(InputUnusable, match="--prompt 1: character 2"):
        read_option(0, "a\udcff")


@given(st.binary(max_size=200))
def test_any_bytes_become_records(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "in.jsonl"
    path.write_bytes(data)

    lines = list(read_lines(path, 0, chat=True))

    assert [line.index for line in lines] == list(range(len(lines)))
    assert all((line.error is None) == (line.given is not None) for line in lines if not line.given)
