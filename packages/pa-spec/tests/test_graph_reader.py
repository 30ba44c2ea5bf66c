"""Goal: whatever an ONNX file holds, reading it ends with a graph or a finding that says where.

Method: files that are no models, models whose names or shapes are wrong, and odd models.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, helper
from pa_spec.checker.finding import Findings
from pa_spec.checker.graph import protobuf
from pa_spec.checker.graph.graph import Graph, TensorSource
from pa_spec.checker.graph.reader import read_graph
from paged_graphs import (
    HALF,
    HIDDEN,
    PACKED,
    attention_nodes,
    check_model_proto,
    decoder,
)

NOT_ONNX = "model.onnx: model.onnx: expected an ONNX model, got"


def read(model: ModelProto, folder: Path) -> Graph:
    """Read a model that has a graph."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    graph = read_graph(path, path.name, Findings())
    assert graph is not None
    return graph


def test_the_graph_keeps_what_the_checker_needs(tmp_path: Path) -> None:
    graph = read(decoder(), tmp_path)

    assert graph.file == "model.onnx"
    assert tuple(graph.inputs)[:2] == ("input_ids", "cumulative")
    assert "qkv" not in graph.inputs
    assert graph.outputs["logits"].producer == "MatMul"
    assert [node.place for node in graph.attention] == ["/layers.0/attn", "/layers.1/attn"]
    node = graph.attention[0]
    assert node.inputs[1] is None
    query, key_cache, cosines = node.inputs[0], node.inputs[3], node.inputs[8]
    assert query is not None
    assert (query.source, query.producer) == (TensorSource.NODE, "MatMul")
    assert query.tensor.shape == ("num_tokens", PACKED)
    assert key_cache is not None
    assert key_cache.source is TensorSource.GRAPH_INPUT
    assert cosines is not None
    assert cosines.source is TensorSource.INITIALIZER
    assert node.outputs == ("a0", "present.0.key", "present.0.value")
    assert node.attributes == {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    assert graph.operators["com.microsoft", "PagedAttention"] == 2
    assert graph.opsets == {"": 21, "com.microsoft": 1}
    assert graph.is_sound


def test_shapes_follow_from_the_graph_alone(tmp_path: Path) -> None:
    model = decoder()
    del model.graph.value_info[:]

    graph = read(model, tmp_path)

    shapes = [node.inputs[0] and node.inputs[0].tensor.shape for node in graph.attention]
    assert shapes == [("num_tokens", PACKED)] * 2
    assert check_model_proto(model, tmp_path) == ()


def test_a_node_without_a_name_is_called_after_its_output(tmp_path: Path) -> None:
    model = decoder()
    attention_nodes(model)[0].name = ""

    assert read(model, tmp_path).attention[0].place == "a0"


def test_an_input_with_an_initializer_need_not_be_fed(tmp_path: Path) -> None:
    model = decoder()
    model.graph.input.append(helper.make_tensor_value_info("qkv", HALF, [HIDDEN, PACKED]))

    assert "qkv" not in read(model, tmp_path).inputs


def nested(depth: int) -> bytes:
    """Return a model with bodies inside bodies, as bytes: no library writes them so deep."""

    def field(number: int, data: bytes) -> bytes:
        length, size = len(data), b""
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + data

    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [], [])
    data = graph.SerializeToString()
    for _ in range(depth):
        body = field(1, b"body") + field(6, data) + b"\xa0\x01\x05"
        data = field(1, field(4, b"If") + field(5, body))
    imports = ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)])
    rest: bytes = imports.SerializeToString()
    return field(7, data) + rest


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", f"{NOT_ONNX} an empty file (graph.not_onnx)"),
    "text": (lambda: b"# a model\n" * 50, f"{NOT_ONNX} 500 bytes"),
    "zeros": (lambda: bytes(1000), f"{NOT_ONNX} 1000 bytes"),
    "half": (lambda: decoder().SerializeToString()[:9000], f"{NOT_ONNX} 9000 bytes"),
    "no graph": (
        lambda: ModelProto(ir_version=10).SerializeToString(),
        f"{NOT_ONNX} a message without a graph (graph.not_onnx)",
    ),
    "bodies in bodies": (lambda: nested(200), f"{NOT_ONNX} "),
    "bodies in bodies without end": (lambda: nested(20_000), f"{NOT_ONNX} "),
}


@pytest.mark.parametrize(("make", "start"), FILES.values(), ids=FILES.keys())
def test_what_is_no_model_cannot_be_read(
    make: Callable[[], bytes], start: str, tmp_path: Path
) -> None:
    (found,) = check_model_proto(make(), tmp_path)

    assert str(found).startswith(start)
    assert found.id == "graph.not_onnx"
    assert found.severity.value == "unreadable"


def test_bodies_as_deep_as_protobuf_reads_them_are_walked(tmp_path: Path) -> None:
    for depth in (1, 10, 30):
        found = check_model_proto(nested(depth), tmp_path)

        assert [each.id for each in found] == ["graph.undefined_name", "graph.no_attention"]
        assert found[0].place.inside.count(" > ") == depth


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    for name, actual in (
        ("absent.onnx", "No such file or directory"),
        ("loop.onnx", "Too many levels of symbolic links"),
        ("pipe.onnx", "not a regular file"),
        ("", "not a regular file"),
        ("a\0b", "embedded null byte"),
    ):
        findings = Findings()

        assert read_graph(tmp_path / name, name, findings) is None
        (found,) = findings
        assert (found.id, found.actual) == ("file.unreadable", actual)


def test_a_file_beyond_what_protobuf_holds_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("was read"))
    findings = Findings()

    assert read_graph(path, path.name, findings) is None

    assert [str(each) for each in findings] == [
        (
            f"huge.onnx: huge.onnx: expected at most {protobuf.MAX_MODEL_BYTES} bytes, "
            "got 2147483648 bytes (file.too_large)"
        )
    ]


def test_without_the_onnx_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    findings = Findings()

    assert read_graph(path, path.name, findings) is None
    assert [str(each) for each in findings] == [
        (
            "model.onnx: onnx: expected the onnx library; pip install 'onnx>=1.20' installs it, "
            "got not installed (graph.onnx_missing)"
        )
    ]


def test_inference_that_fails_leaves_what_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError

    monkeypatch.setattr("onnx.shape_inference.infer_shapes", fail)

    found = check_model_proto(decoder(), tmp_path)

    assert [str(each) for each in found] == [
        (
            "model.onnx: shape inference: expected a graph that the onnx library can infer "
            "shapes of, got declared shapes only (graph.not_inferred)"
        )
    ]
