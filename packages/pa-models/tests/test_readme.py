"""The README's example runs with this package alone and prints what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example_prints_what_the_readme_shows() -> None:
    text = README.read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    code, shown = found.groups()

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert run.stdout == shown
