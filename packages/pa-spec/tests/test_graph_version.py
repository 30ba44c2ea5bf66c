"""Goal: versions that are none are violations, versions of a newer ONNX a warning.

Method: one version of a decoder is changed; local functions that call each other are added.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import FunctionProto, defs, helper
from paged_graphs import check_model_proto, decoder


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_is_positive(version: int, tmp_path: Path) -> None:
    for name in ("ir_version", "ONNX's own domain", "other"):
        model = decoder(1)
        if name == "ir_version":
            model.ir_version = version
        elif name == "other":
            model.opset_import.add(domain="other", version=version)
        else:
            model.opset_import[0].version = version

        assert list(map(str, check_model_proto(model, tmp_path))) == [
            f"model.onnx: {name}: expected a version of at least 1, got {version} (graph.version)"
        ]


def test_a_newer_version_than_the_librarys_is_a_warning(tmp_path: Path) -> None:
    newest = (onnx.IR_VERSION, defs.onnx_opset_version())
    for versions, expected in (
        (newest, []),
        ((999, newest[1]), [("ir_version", f"at most {newest[0]}, the newest that")]),
        ((newest[0], 999), [("ONNX's own domain", f"at most {newest[1]}, the newest that")]),
    ):
        model = decoder(1)
        model.ir_version, model.opset_import[0].version = versions
        text = "the installed onnx library knows, got 999 (graph.newer_onnx)"

        found = list(map(str, check_model_proto(model, tmp_path)))

        assert found == [f"model.onnx: {name}: expected {most} {text}" for name, most in expected]


def test_an_operator_that_onnx_has_not_is_a_warning(tmp_path: Path) -> None:
    model = decoder(1)
    model.graph.node.add(op_type="MatMull", input=["x", "x"], output=["spare"], name="slip")
    model.graph.node[-1].input[:] = [model.graph.input[0].name] * 2

    found = list(map(str, check_model_proto(model, tmp_path)))

    assert found == [
        (
            "model.onnx: op_type: expected an operator of ONNX, or one that a runtime adds to its "
            "domain, got MatMull (did you mean MatMul?) (graph.unknown_operator)"
        )
    ]
    model.graph.node[-1].op_type = "MatMul"
    assert not [each for each in check_model_proto(model, tmp_path) if "unknown" in str(each)]
    model.graph.node[-1].op_type, model.opset_import[0].version = "MatMull", 999
    assert [each.id for each in check_model_proto(model, tmp_path)] == ["graph.newer_onnx"]


def function(name: str, *called: str) -> FunctionProto:
    nodes = [helper.make_node(each, ["a"], [f"b{each}"], domain="own") for each in called]
    return helper.make_function("own", name, ["a"], [], nodes, [helper.make_opsetid("own", 1)])


@pytest.mark.parametrize(
    ("functions", "recursive"),
    [
        ([function("F", "F")], "F"),
        ([function("F", "G"), function("G", "F")], "F"),
        ([function("F", "G", "H"), function("G", "H"), function("H")], ""),
        ([function("E", "F"), function("F", "G"), function("G", "H"), function("H", "G")], "G"),
    ],
)
def test_a_function_that_calls_itself_is_one_finding(
    functions: list[FunctionProto], recursive: str, tmp_path: Path
) -> None:
    model = decoder(1)
    model.functions.extend(functions)
    model.opset_import.add(domain="own", version=1)

    found = check_model_proto(model, tmp_path)

    assert [each.id for each in found] == ["graph.recursive_function"] * bool(recursive)
    assert [each.name for each in found] in ([], [recursive], ["H"])
