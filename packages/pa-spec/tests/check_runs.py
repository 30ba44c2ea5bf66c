"""Runs of `pa-spec check` for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-W", "error", "-m", "pa_spec.command", "check"]
# What the stream still holds when it breaks must not break it again at the end.
BUFFERED = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def engine_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "engine.json"
    path.write_text(text)
    return path
