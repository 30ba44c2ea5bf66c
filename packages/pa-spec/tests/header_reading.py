"""Writes a safetensors header and reads it back with its findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pa_spec.checker import Findings
from pa_spec.checker.huggingface.weights.safetensors_header import (
    SafetensorsHeader,
    read_header,
)
from safetensors_writer import write_header

SHAPES = {"a": (2, 3), "b": (4,), "c": ()}


def read(path: Path) -> tuple[SafetensorsHeader | None, list[str]]:
    findings = Findings()
    header = read_header(path, findings, path.name)
    return header, [str(each) for each in findings]


def messages(tmp_path: Path, header: dict[str, Any] | bytes, data_bytes: int = -1) -> list[str]:
    write_header(tmp_path / "w.safetensors", header, data_bytes)
    return read(tmp_path / "w.safetensors")[1]
