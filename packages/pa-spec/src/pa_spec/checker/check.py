"""Checks whatever a path is, with the part that knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from pa_spec.checker.capacity import Capacity, capacity_of
from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.report import CheckOptions, Report, TargetKind
from pa_spec.checker.serving import backends_of
from pa_spec.checker.target import Target, find_target
from pa_spec.errors import InputUnusable

_DEFAULTS = CheckOptions()

Answer = tuple[Mapping[str, str], ModelMeaning | None]
"""What was looked at, in words, and what a configuration resolves to."""


def check_model(path: str | Path, options: CheckOptions = _DEFAULTS) -> Report:
    """Check a model or a configuration; whatever the path holds is in the report.

    path: an ONNX file; a folder with genai_config.json, with config.json or with one ONNX file;
    one of these files; or an engine configuration (.json, .toml). Weights are never read.

    Raises InputUnusable for options that are none.
    """
    _require_usable(options)
    findings = Findings()
    target = find_target(Path(path), findings)
    facts, meaning = _check(target, findings, options)
    return Report(
        path=str(path),
        kind=target.kind,
        is_strict=options.is_strict,
        findings=tuple(findings),
        omitted=findings.omitted,
        facts=facts,
        meaning=meaning,
        capacity=_capacity(meaning, options),
    )


def _check(target: Target, findings: Findings, options: CheckOptions) -> Answer:
    match target.kind:
        case TargetKind.ONNX_FILE:
            return _check_graph(target, findings), None
        case TargetKind.EXPORTED_FOLDER:
            from pa_spec.checker.exported.check import check_exported_folder

            return check_exported_folder(target.path, findings, options), None
        case TargetKind.HUGGINGFACE_FOLDER:
            meaning = _check_huggingface(target, findings, options)
            return {}, meaning and replace(meaning, backends=backends_of(meaning))
        case TargetKind.ENGINE_CONFIGURATION:
            from pa_spec.checker.engine_file import check_engine_document

            return check_engine_document(target.document or {}, findings, target.file), None
        case TargetKind.UNKNOWN:
            return {}, None
        case _:
            assert_never(target.kind)


def _check_graph(target: Target, findings: Findings) -> Mapping[str, str]:
    from pa_spec.checker.graph.node import check_nodes
    from pa_spec.checker.graph.reader import read_graph

    graph = read_graph(target.path, target.file, findings)
    if graph is None:
        return {}
    check_nodes(graph, findings, block_size=None)
    return {
        "nodes": f"{sum(graph.operators.values())}",
        "PagedAttention nodes": f"{len(graph.attention)}",
        "fixed-state nodes": f"{len(graph.state)}",
    }


def _check_huggingface(
    target: Target, findings: Findings, options: CheckOptions
) -> ModelMeaning | None:
    if target.document is None:
        from pa_spec.checker.huggingface.check import check_huggingface_folder

        return check_huggingface_folder(target.path, findings, options)
    # A config.json under another name: what lies beside it may belong to another model.
    from pa_spec.checker.huggingface.config.resolve import resolve_config

    return resolve_config(target.document, findings, Place(target.file))


def _capacity(meaning: ModelMeaning | None, options: CheckOptions) -> Capacity | None:
    if meaning is None or options.memory_bytes is None or options.length_tokens is None:
        return None
    return capacity_of(meaning, options.memory_bytes, options.length_tokens)


def _require_usable(options: CheckOptions) -> None:
    memory, length = options.memory_bytes, options.length_tokens
    if (memory is None) != (length is None):
        raise InputUnusable("memory, length", "one of them", "both or neither")
    for name, value in (("memory", memory), ("length", length)):
        if value is not None and not 1 <= value <= 2**63 - 1:
            raise InputUnusable(name, f"{value}", "a number above 0")
