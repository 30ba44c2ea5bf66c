"""What a path is that somebody wants checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pa_spec.checker.engine_file import FIELDS, is_engine_document
from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.report import TargetKind
from pa_spec.checker.source import kind_of, read_json, read_toml, reason_of
from pa_spec.checker.text import printable, shortened

MAX_ENTRIES = 10_000
"""Entries of a folder that are looked at; a model has some hundreds of files."""

_EXPORTED = "genai_config.json"
_HUGGINGFACE = "config.json"
_HUGGINGFACE_FILES = {
    _HUGGINGFACE,
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
}
_SHOWN_ENTRIES = 6
# A ModelProto starts with its IR version: field 1, a small number, and then another field.
_ONNX_FIRST = 0x08
_ONNX_VERSIONS = range(1, 64)


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be checked.

    path: the folder of an exported or Hugging Face model, else the file. file: what findings call
    it (Place.file). document: what a configuration file holds, when it was read already.
    """

    kind: TargetKind
    path: Path
    file: str = ""
    document: Mapping[str, Any] | None = None


def find_target(path: Path, findings: Findings) -> Target:
    """Say what a path is; what cannot be checked is UNKNOWN, and the reason is reported."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        findings.add("file.no_target", Place(), path.name or str(path), reason_of(error))
        return Target(TargetKind.UNKNOWN, path)
    if kind_of(mode) == "a folder":
        return _folder(path, findings)
    if kind_of(mode):
        findings.add("file.no_target", Place(), path.name, kind_of(mode))
        return Target(TargetKind.UNKNOWN, path)
    return _file(path, findings)


def _folder(path: Path, findings: Findings) -> Target:
    try:
        with os.scandir(path) as entries:
            names = sorted(each.name for each in islice(entries, MAX_ENTRIES))
    except OSError as error:
        findings.add("file.unreadable", Place(), path.name or str(path), reason_of(error))
        return Target(TargetKind.UNKNOWN, path)
    if _is_there(path / _EXPORTED):
        return Target(TargetKind.EXPORTED_FOLDER, path)
    if _is_there(path / _HUGGINGFACE):
        return Target(TargetKind.HUGGINGFACE_FOLDER, path)
    models = [name for name in names if name.lower().endswith(".onnx")]
    if len(models) == 1:
        return Target(TargetKind.ONNX_FILE, path / models[0], models[0])
    name = path.name or str(path)
    if models:
        findings.add("file.several_models", Place(), name, _some(models))
    elif any(each.lower().endswith(".gguf") for each in names):
        findings.add("file.gguf", Place(), name, f"a folder with {_some(names)}")
    else:
        findings.add("file.no_model", Place(), name, f"a folder with {_some(names)}")
    return Target(TargetKind.UNKNOWN, path)


def _file(path: Path, findings: Findings) -> Target:
    if path.name == _EXPORTED:
        return Target(TargetKind.EXPORTED_FOLDER, path.parent)
    beside = path.name == _HUGGINGFACE or _is_there(path.parent / _HUGGINGFACE)
    if beside and (path.name in _HUGGINGFACE_FILES or path.suffix == ".safetensors"):
        return Target(TargetKind.HUGGINGFACE_FOLDER, path.parent)
    if path.suffix.lower() == ".onnx":
        return Target(TargetKind.ONNX_FILE, path)
    if path.suffix.lower() in {".json", ".toml"}:
        return _configuration(path, findings)
    return _file_by_content(path, findings)


def _file_by_content(path: Path, findings: Findings) -> Target:
    try:
        with path.open("rb") as opened:
            first = opened.read(16)
    except OSError as error:
        findings.add("file.unreadable", Place(), path.name, reason_of(error))
        return Target(TargetKind.UNKNOWN, path)
    if first.startswith(b"GGUF"):
        findings.add("file.gguf", Place(), path.name, "a GGUF file")
        return Target(TargetKind.UNKNOWN, path)
    if len(first) > 2 and first[0] == _ONNX_FIRST and first[1] in _ONNX_VERSIONS:
        return Target(TargetKind.ONNX_FILE, path)
    if first.lstrip().startswith(b"{"):
        return _configuration(path, findings)
    return _unknown(path, "a file of another kind" if first else "an empty file", findings)


def _configuration(path: Path, findings: Findings) -> Target:
    is_toml = path.suffix.lower() == ".toml"
    document = read_toml(path, findings, "") if is_toml else read_json(path, findings, "")
    if document is None:
        return Target(TargetKind.UNKNOWN, path)
    if isinstance(document.get("model"), Mapping):
        return _unknown(path, f"a model configuration that is not named {_EXPORTED}", findings)
    if isinstance(document.get("model_type"), str):
        return Target(TargetKind.HUGGINGFACE_FOLDER, path, document=document)
    if is_engine_document(document):
        return Target(TargetKind.ENGINE_CONFIGURATION, path, document=document)
    return _unknown(path, f"the keys {_some(list(document))}", findings)


def _unknown(path: Path, actual: str, findings: Findings) -> Target:
    allowed = ", ".join(("engine", "search", *FIELDS))
    findings.add("file.unknown_kind", Place(), path.name, actual, allowed=allowed)
    return Target(TargetKind.UNKNOWN, path)


def _is_there(path: Path) -> bool:
    # lexists: a broken link or a loop is there, and reading it says what is wrong with it.
    return os.path.lexists(path)


def _some(names: list[str]) -> str:
    if not names:
        return "nothing"
    words = ", ".join(shortened(printable(each), 60) for each in names[:_SHOWN_ENTRIES])
    more = len(names) - _SHOWN_ENTRIES
    return f"{words} and {more} more" if more > 0 else words
