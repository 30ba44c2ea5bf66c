"""The compiled code touches nothing outside its tensors, whatever ids, slots and bounds say.

Method: a child runs calls of every instruction-set unit whose tensors lie between forbidden pages;
inputs can only be read, and blocks that a window has left not at all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILDREN = {"guarded_calls": 150, "guarded_states": 100}
"""Scripts, and how many calls each makes at least."""


def run_child(*words: str) -> tuple[int, list[str], str]:
    """Return exit code, lines and errors of a script and its arguments."""
    script = str(Path(__file__).with_name(f"{words[0]}.py"))
    command = [sys.executable, script, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("script", CHILDREN)
def test_no_call_touches_what_lies_outside_its_tensors(script: str) -> None:
    code, lines, errors = run_child(script)

    assert code == 0, f"ended by {code} in {lines[-1:]}\n{errors[-2000:]}"
    assert lines[-1] == "done"
    assert len(lines) > CHILDREN[script]


def test_a_wrong_access_ends_the_child() -> None:
    code, lines, _ = run_child("guarded_calls", "fault")

    assert lines == ["fault"]
    assert code != 0
