"""Reading an ONNX file's protobuf: bounded, external data untouched."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.encoding import check_encoding

MAX_MODEL_BYTES = 2**31 - 1
"""Protobuf's own limit of a message; larger models keep their tensors in external data."""


def read_model(path: Path, file: str, findings: Findings) -> Any:
    """Return the ModelProto of a file, or None after reporting why there is none.

    External data is not opened here. Protobuf itself refuses messages nested more than 100 deep,
    which bounds the subgraphs of what is returned.
    """
    place = Place(file)
    try:
        from onnx import ModelProto
    except ImportError:
        findings.add("graph.onnx_missing", place, "onnx", "not installed")
        return None
    data = _read(path, place, findings)
    if data is None:
        return None
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - protobuf has its own, and no stubs for them
        reason = str(error).partition("\n")[0] or type(error).__name__
        findings.add("graph.not_onnx", place, path.name, f"{len(data)} bytes ({reason})")
        return None
    if not model.HasField("graph"):
        found = "an empty file" if not data else "a message without a graph"
        findings.add("graph.not_onnx", place, path.name, found)
        return None
    return model if check_encoding(model, file, findings) else None


def _read(path: Path, place: Place, findings: Findings) -> bytes | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            findings.add("file.unreadable", place, path.name, "not a regular file")
            return None
        if status.st_size > MAX_MODEL_BYTES:
            found = f"{status.st_size} bytes"
            findings.add("file.too_large", place, path.name, found, most=MAX_MODEL_BYTES)
            return None
        return path.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        findings.add("file.unreadable", place, path.name, reason)
        return None
