"""Paths that nobody should have to check: each as a function that makes it in a folder.

A name's first word is its kind. The function returns what to check, the folder by default.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

from llama_config import LLAMA
from onnx import ModelProto, TensorProto, helper
from paged_graphs import decoder, model_of

DEEP = 10**6
NODES = 100_000

Make = Callable[[Path], Path | None]


def config_text(**changes: str) -> str:
    """Return a configuration with values given as JSON texts, legal or not."""
    texts = {key: json.dumps(value) for key, value in LLAMA.items()} | changes
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in texts.items()) + "}"


def configured(**changes: str) -> Make:
    return file("config.json", config_text(**changes))


def file(name: str, content: bytes | str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def model(change: Callable[[ModelProto], None]) -> Make:
    """Make an ONNX file of a decoder with one thing changed."""

    def make(folder: Path) -> None:
        proto = decoder()
        change(proto)
        (folder / "model.onnx").write_bytes(proto.SerializeToString())

    return make


def truncated(folder: Path) -> None:
    data = decoder().SerializeToString()
    (folder / "model.onnx").write_bytes(data[: len(data) // 2])


def external(location: str, **values: str) -> Make:
    """Make an ONNX file whose embedding is in another file."""

    def change(proto: ModelProto) -> None:
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in ({"location": location} | values).items():
            tensor.external_data.add(key=key, value=value)

    return model(change)


def huge_dimensions(proto: ModelProto) -> None:
    proto.graph.initializer.add(name="huge", data_type=TensorProto.FLOAT, dims=[2**60, 2**60])


def duplicate_names(proto: ModelProto) -> None:
    again = helper.make_node("Relu", ["x0"], [proto.graph.node[1].output[0]])
    proto.graph.node.append(again)


def cyclic(proto: ModelProto) -> None:
    proto.graph.node[0].input[1] = proto.graph.node[-1].output[0]


def many_nodes(folder: Path) -> None:
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in ("n0", f"n{NODES}")]
    nodes = [helper.make_node("Relu", [f"n{i}"], [f"n{i + 1}"]) for i in range(NODES)]
    proto = model_of(helper.make_graph(nodes, "chain", values[:1], values[1:]))
    (folder / "model.onnx").write_bytes(proto.SerializeToString())


def nested_subgraphs(folder: Path) -> None:
    # Written as bytes: the library itself refuses to build what it refuses to read.
    inner = b""
    for _ in range(400):
        graph = _field(1, _field(4, b"If") + _field(5, _field(1, b"then_branch") + inner))
        inner = _field(6, graph)  # AttributeProto.g
    graph = inner[1 + len(_varint(len(inner))) :]
    (folder / "model.onnx").write_bytes(b"\x08\x0a" + _field(7, graph))


def claims_too_much(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"\x08\x0a\x3a" + _varint(2**60) + b"\x0a")


def safetensors(header: bytes, claimed: int | None = None) -> Make:
    """Make a Hugging Face folder whose weights have that header."""

    def make(folder: Path) -> None:
        (folder / "config.json").write_text(config_text())
        length = struct.pack("<Q", len(header) if claimed is None else claimed)
        (folder / "model.safetensors").write_bytes(length + header)

    return make


def special(name: str, kind: str) -> Make:
    """Make a Hugging Face folder with one file that is a pipe, a loop, a device or a folder."""

    def make(folder: Path) -> None:
        if name != "config.json":
            (folder / "config.json").write_text(config_text())
        path = folder / name
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero" if kind == "device" else path)

    return make


def sparse(name: str, size: int) -> Make:
    def make(folder: Path) -> None:
        with (folder / name).open("wb") as opened:
            opened.truncate(size)

    return make


def path_of(path: str) -> Make:
    return lambda folder: folder / path


def both(*makes: Make) -> Make:
    def make(folder: Path) -> None:
        for each in makes:
            each(folder)

    return make


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
