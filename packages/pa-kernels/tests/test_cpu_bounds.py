"""The compiled backend touches nothing outside its tensors, whatever ids, slots and bounds say.

Method: a child for each instruction-set unit runs calls whose tensors lie between forbidden pages
(guarded_calls.py); inputs can only be read, and blocks that a window has left not at all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pa_kernels import _cpu

CHILD = Path(__file__).with_name("guarded_calls.py")


def run_child(argument: str) -> tuple[int, list[str], str]:
    """Return exit code, lines and errors of a child."""
    done = subprocess.run(
        [sys.executable, str(CHILD), argument], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("unit", _cpu.available_units())
def test_no_call_touches_what_lies_outside_its_tensors(unit: str) -> None:
    code, lines, errors = run_child(unit)

    assert code == 0, f"ended by {code} in {lines[-1:]}\n{errors[-2000:]}"
    assert lines[-1] == "done"
    # Each call on both sides of the tensors, and at least what every machine serves.
    assert len(lines) > 100


def test_a_wrong_access_ends_the_child() -> None:
    code, lines, _ = run_child("fault")

    assert lines == ["fault"]
    assert code != 0
