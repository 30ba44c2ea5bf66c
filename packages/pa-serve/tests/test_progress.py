"""What a terminal shows: a bar that never mixes with results."""

from __future__ import annotations

import os
import pty
import re
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


def test_results_on_the_same_terminal_are_whole_lines_and_the_bar_leaves_none(
    command: list[str],
) -> None:
    status, shown = run_on_terminal(command, None)

    assert status == 0
    assert b"answers" in shown
    left = [line for line in screen_after(shown.decode()) if line.strip()]
    assert [record["index"] for record in records_of("\n".join(left))] == [0, 1, 2]


def screen_after(stream: str) -> list[str]:
    """Return the lines that a terminal of any width shows once it has seen the stream."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", stream):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece.startswith("\x1b"):
            if piece.endswith("K"):
                lines[row] = ""
            elif piece.endswith("A"):
                row -= int(piece[2:-1] or 1)
        else:
            kept = lines[row].ljust(column)
            lines[row] = kept[:column] + piece + kept[column + len(piece) :]
            column += len(piece)
    return lines
