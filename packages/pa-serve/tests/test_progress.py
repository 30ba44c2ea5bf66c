"""What a terminal shows: a bar that never mixes with results."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import Write, records_of


def run_on_terminal(command: list[str], stdout: int | None) -> tuple[int, bytes]:
    """Run with standard error, and output unless given, on a terminal; return what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pa_serve", *command],
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(timeout=60), shown


@pytest.fixture
def command(model: str, write_lines: Write) -> list[str]:
    source = write_lines([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}])
    return ["generate", "--model", model, "--input", str(source), "--max-new-tokens", "40"]


def test_results_reach_their_file_while_the_bar_is_on_the_terminal(
    command: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "out.jsonl"
    with target.open("wb") as file:
        status, shown = run_on_terminal(command, file.fileno())

    assert status == 0
    assert len(records_of(target.read_text("utf-8"))) == 3
    assert b"answers" in shown
    assert b"token_ids" not in shown


def test_results_on_the_same_terminal_are_whole_lines(command: list[str]) -> None:
    status, shown = run_on_terminal(command, None)

    assert status == 0
    lines = [line for line in shown.decode().split("\r\n") if '"index"' in line]
    # The bar is erased before a result is printed: after the last escape comes the plain line.
    results = [records_of(line[line.index('{"index"') :])[0] for line in lines]
    assert [result["index"] for result in results] == [0, 1, 2]
    assert b"answers" in shown
