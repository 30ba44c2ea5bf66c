from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("example", "shown"),
    list(zip(blocks("python"), blocks("text"), strict=True)),
    ids=["call", "model"],
)
def test_example_prints_what_the_readme_shows(example: str, shown: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert ran.stdout == shown


def test_commands_of_the_readme_run(tmp_path: Path) -> None:
    shown = re.findall(r"^pa-spec (.*)$", "".join(blocks("sh")), re.MULTILINE)

    assert len(shown) >= 3
    for arguments in shown:
        command = [sys.executable, "-m", "pa_spec.command", *arguments.split()]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert ran.stdout
