"""Goal: output that no file can break, and a message whatever happens while checking."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from check_runs import BUFFERED, COMMAND, engine_file, run
from pa_spec.command import main

HOSTILE = "\x1b[2J\u202e\x07\r\n\u2028\ud800" + "x" * 5000


def test_text_of_hostile_files_cannot_move_the_cursor_or_fill_the_screen(tmp_path: Path) -> None:
    path = engine_file(tmp_path, json.dumps({"search": {HOSTILE: 1, "top_p": HOSTILE}}))

    ran = run(path)

    assert ran.returncode == 1
    assert all(character.isprintable() for character in ran.stdout.replace("\n", ""))
    assert r"\x1b[2J\u202e\x07\x0d\x0a\u2028\ud800" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 1000


def test_json_of_hostile_files_is_one_ascii_object(tmp_path: Path) -> None:
    path = engine_file(tmp_path, json.dumps({"search": {HOSTILE: 1, "top_p": HOSTILE}}))

    ran = run(path, "--format", "json")

    assert ran.stdout.isascii()
    document = json.loads(ran.stdout)
    assert document["findings"][0]["name"] == HOSTILE.replace("\ud800", r"\ud800")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp037"])
def test_output_fits_the_streams_encoding(tmp_path: Path, encoding: str) -> None:
    path = engine_file(tmp_path, json.dumps({"search": {"ключ": 1}}))

    ran = subprocess.run(
        [*COMMAND, str(path)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"},
    )

    assert ran.returncode == 0
    shown = "ключ" if encoding == "utf-8" else r"\u043a\u043b\u044e\u0447"
    assert shown in ran.stdout.decode(encoding)


def test_reader_that_stops_reading_changes_nothing(tmp_path: Path) -> None:
    path = engine_file(tmp_path, '{"block_size": 17}')
    reading, writing = os.pipe()
    os.close(reading)

    ran = subprocess.run(
        [*COMMAND, str(path)], stdout=writing, stderr=subprocess.PIPE, check=False, env=BUFFERED
    )
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (1, b"")


def test_report_that_cannot_be_written_is_status_2(tmp_path: Path) -> None:
    path = engine_file(tmp_path, '{"block_size": 16}')

    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, str(path)]
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, check=False, env=BUFFERED
        )

    assert ran.returncode == 2
    assert ran.stderr == b"pa-spec: the report cannot be written: No space left on device\n"


def test_path_that_is_no_text_is_printed_with_escapes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_text('{"block_size": 16}')

    for output in ("text", "json"):
        ran = run(path, "--format", output)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert r"\udcff.json" in ran.stdout.replace("\\\\", "\\")


def test_fault_of_the_checker_is_status_2_with_a_request_to_report_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by\x1bnothing")

    monkeypatch.setattr("pa_spec.checker.engine_file.check_engine_document", broken)
    path = engine_file(tmp_path, '{"block_size": 16}')

    assert main(["check", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"pa-spec: {path}: checker fault, not checked: ")
    assert r"ZeroDivisionError: by\x1bnothing. Please report it" in captured.err
    with pytest.raises(ZeroDivisionError):
        main(["check", str(path), "--debug"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt, (130, "interrupted")),
        (MemoryError, (2, "cannot be checked in the memory that there is")),
    ],
)
def test_interruption_and_lack_of_memory_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    expected: tuple[int, str],
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("pa_spec.checker.engine_file.check_engine_document", broken)
    path = engine_file(tmp_path, '{"block_size": 16}')

    status, captured = main(["check", str(path)]), capsys.readouterr()

    assert captured.out == ""
    assert (status, captured.err) == (expected[0], f"pa-spec: {path}: {expected[1]}\n")
