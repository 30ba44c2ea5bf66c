"""Mutations of an export's files: the graph's, and the weights' beside it."""

from __future__ import annotations

from pathlib import Path

from export_mutation import ChangeGraph, broken
from onnx import ModelProto


def _located(location: str) -> ChangeGraph:
    def change(model: ModelProto) -> None:
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location

    return change


def _data_renamed(folder: Path) -> None:
    (folder / "model.onnx.data").rename(folder / "weights.bin")


def _truncated(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"\x08\x0a" + b"\xff" * 40)


EXTERNAL = (
    broken("data under another name", "", _located("weights.bin"), folder=_data_renamed),
    broken("data outside", "graph.external_path", _located("../model.onnx.data")),
    broken(
        "no external data",
        "graph.external_missing",
        folder=lambda folder: (folder / "model.onnx.data").unlink(),
    ),
    broken("no graph", "file.unreadable", folder=lambda folder: (folder / "model.onnx").unlink()),
    broken(
        "truncated graph",
        "graph.not_onnx",
        folder=_truncated,
    ),
)
