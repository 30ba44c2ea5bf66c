"""Checks whatever a path is, with the part that knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from pa_spec.checker.capacity import Capacity, capacity_of
from pa_spec.checker.engine_file import OBJECTS
from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.report import CheckOptions, Report, TargetKind
from pa_spec.checker.serving import backends_of
from pa_spec.checker.setting import check_settings, resolved_settings
from pa_spec.checker.target import Target, find_target
from pa_spec.errors import InputUnusable

_DEFAULTS = CheckOptions()
_KINDS = {
    TargetKind.ONNX_FILE: "an ONNX file",
    TargetKind.EXPORTED_FOLDER: "an exported model",
    TargetKind.HUGGINGFACE_FOLDER: "a Hugging Face model",
    TargetKind.ENGINE_CONFIGURATION: "an engine configuration",
}

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
    target = _target(path, findings)
    _check_options(options, target.kind, findings)
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


def _target(path: str | Path, findings: Findings) -> Target:
    if path == "":
        # pathlib takes it for the current folder; what is not set in a script is "".
        findings.add("file.no_target", Place(), "path", "an empty path")
        return Target(TargetKind.UNKNOWN, Path())
    return find_target(Path(path), findings)


def _check(target: Target, findings: Findings, options: CheckOptions) -> Answer:
    match target.kind:
        case TargetKind.ONNX_FILE:
            return _check_graph(target, findings), None
        case TargetKind.EXPORTED_FOLDER:
            from pa_spec.checker.exported.check import check_exported_folder

            return check_exported_folder(target.path, findings, options), None
        case TargetKind.HUGGINGFACE_FOLDER:
            meaning = _check_huggingface(target, findings, options)
            facts = _check_settings_beside(target, findings)
            return facts, meaning and replace(meaning, backends=backends_of(meaning))
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


def _check_settings_beside(target: Target, findings: Findings) -> Mapping[str, str]:
    """Check the engine's settings that stand in the same file as a model's configuration."""
    document = target.document or {}
    if not any(isinstance(document.get(key), Mapping) for key in OBJECTS):
        return {}
    check_settings(document, findings, target.file)
    return resolved_settings(document)


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
    if options.reference_config == "":
        raise InputUnusable("config", "an empty path", "a config.json, or a folder with one")


def _check_options(options: CheckOptions, kind: TargetKind, findings: Findings) -> None:
    """Report an option that says nothing about what is checked; nobody should believe it did."""
    if kind is TargetKind.UNKNOWN:
        return
    if options.reference_config is not None and kind is not TargetKind.EXPORTED_FOLDER:
        findings.add("file.option_unused", Place(), "config", _KINDS[kind], case="config")
    if options.memory_bytes is not None and kind is not TargetKind.HUGGINGFACE_FOLDER:
        findings.add("file.option_unused", Place(), "memory, length", _KINDS[kind], case="memory")
