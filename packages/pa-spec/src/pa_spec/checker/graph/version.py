"""Versions of ONNX that a file says it is written for."""

from __future__ import annotations

from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.companion import MICROSOFT
from pa_spec.checker.graph.element import shown


def check_versions(model: Any, file: str, findings: Findings) -> None:
    """Report versions that are none, and those that the installed onnx library does not know."""
    from onnx import IR_VERSION, defs

    place = Place(file)
    found: list[tuple[str, int, int]] = [("ir_version", model.ir_version, int(IR_VERSION))]
    for each in model.opset_import:
        is_standard = each.domain in ("", "ai.onnx")
        newest = int(defs.onnx_opset_version()) if is_standard else each.version
        name = "ONNX's own domain" if is_standard else shown(each.domain)
        # Of the operator's domain there is one version, which the nodes' check asks for.
        if each.domain != MICROSOFT:
            found.append((name, int(each.version), newest))
    for name, version, newest in found:
        if version < 1:
            findings.add("graph.version", place, name, version)
        elif version > newest:
            findings.add("graph.newer_onnx", place, name, version, most=newest)
