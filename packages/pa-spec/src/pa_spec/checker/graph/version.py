"""Versions of ONNX that a file says it is written for, and operators that ONNX has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.companion import MICROSOFT, companions
from pa_spec.checker.graph.walk import ATTENTION
from pa_spec.checker.tensor_text import name_text
from pa_spec.checker.text import did_you_mean

_STANDARD = ("", "ai.onnx")
"""Spellings of ONNX's own domain."""

_MOST_COMPARED = 20
"""Unknown operators that are compared with known ones; comparing is slow."""


def check_versions(model: Any, file: str, findings: Findings) -> None:
    """Report versions that are none, and those that the installed onnx library does not know."""
    from onnx import IR_VERSION, defs

    place = Place(file)
    found: list[tuple[str, int, int]] = [("ir_version", model.ir_version, int(IR_VERSION))]
    for each in model.opset_import:
        is_standard = each.domain in _STANDARD
        newest = int(defs.onnx_opset_version()) if is_standard else each.version
        name = "ONNX's own domain" if is_standard else name_text(each.domain)
        # Of the operator's domain there is one version, which the nodes' check asks for.
        if each.domain != MICROSOFT:
            found.append((name, int(each.version), newest))
    for name, version, newest in found:
        if version < 1:
            findings.add("graph.version", place, name, version)
        elif version > newest:
            findings.add("graph.newer_onnx", place, name, version, most=newest)


def check_operators(
    model: Any, operators: Mapping[tuple[str, str], int], file: str, findings: Findings
) -> None:
    """Report operators of ONNX's own domain that the library does not know, nor we.

    operators: how many nodes of each (domain, op type) there are. A file of a newer ONNX is left
    alone: what it has more cannot be told from a slip.
    """
    from onnx import defs

    newest = int(defs.onnx_opset_version())
    if any(each.version > newest for each in model.opset_import if each.domain in _STANDARD):
        return
    # One of another domain, in this one, is told by its node: graph.wrong_domain.
    own = {ATTENTION, *(each.name for each in (*companions(), *model.functions))}
    unknown = [
        name
        for domain, name in operators
        if domain in _STANDARD and name not in own and not defs.has(name, "")
    ]
    if not unknown:
        return
    known = sorted({each.name for each in defs.get_all_schemas() if not each.domain} | own)
    for index, name in enumerate(sorted(unknown)):
        hint = did_you_mean(name, known) if index < _MOST_COMPARED else ""
        actual = f"{name_text(name)}{hint}"
        findings.add("graph.unknown_operator", Place(file), "op_type", actual)
