"""Tensors of a checkpoint by name: safetensors files, single or sharded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, final

import safetensors
from pa_spec import InputUnusable
from torch import Tensor

from pa_models.fields import Fields


class TensorSource(Protocol):
    """Where a model's weights come from, by their Hugging Face names."""

    @property
    def name(self) -> str:
        """What to call it in errors."""

    def has(self, name: str) -> bool:
        """Whether it holds a tensor of this name."""

    def read(self, name: str) -> Tensor:
        """Load one tensor as it is stored; InputUnusable when it is missing or broken."""


@final
class SafetensorsFolder:
    """The safetensors files of one folder; opens each file once, reads tensors on demand."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder
        self._file_of = _locate(folder)
        self._open: dict[str, safetensors.safe_open] = {}
        for file in sorted(set(self._file_of.values())):
            present = set(_names(self._file(file)))
            promised = {name for name, owner in self._file_of.items() if owner == file}
            if missing := sorted(promised - present):
                problem = f"tensor {missing[0]} is missing although the index names it"
                raise InputUnusable(str(folder / file), problem)

    def has(self, name: str) -> bool:
        """Whether any of the files holds a tensor of this name."""
        return name in self._file_of

    def read(self, name: str) -> Tensor:
        """Load one tensor as it is stored."""
        if name not in self._file_of:
            raise InputUnusable(self.name, f"tensor {name} is missing")
        try:
            return _get(self._file(self._file_of[name]), name)
        except (OSError, safetensors.SafetensorError) as error:
            raise InputUnusable(self.name, f"tensor {name} cannot be read ({error})") from error

    def _file(self, name: str) -> safetensors.safe_open:
        if name not in self._open:
            self._open[name] = _open_file(self._folder / name)
        return self._open[name]


def read_json(path: Path) -> Fields:
    """Read a JSON object from a file; InputUnusable when it is missing or not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = "no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise InputUnusable(str(path), problem, "a file of JSON") from error
    except (ValueError, RecursionError) as error:
        raise InputUnusable(str(path), f"not JSON ({error})", "a JSON object") from error
    if not isinstance(value, Mapping):
        raise InputUnusable(str(path), f"a JSON {type(value).__name__}", "a JSON object")
    return Fields(path.name, value)


def _locate(folder: Path) -> dict[str, str]:
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if index.exists():
        weight_map = read_json(index).raw("weight_map")
        if not isinstance(weight_map, Mapping) or not weight_map:
            raise InputUnusable(f"{index}.weight_map", "missing", "tensor names and their files")
        located = {str(name): Path(str(file)).name for name, file in weight_map.items()}
        for file in sorted(set(located.values())):
            if not (folder / file).exists():
                raise InputUnusable(str(folder / file), "this shard of the checkpoint is missing")
        return located
    if not single.exists():
        problem = "holds no weights" if folder.is_dir() else "no such folder"
        raise InputUnusable(str(folder), problem, f"{single.name} or {index.name}")
    return dict.fromkeys(_names(_open_file(single)), single.name)


def _open_file(path: Path) -> safetensors.safe_open:
    try:
        return safetensors.safe_open(str(path), framework="pt")
    except (OSError, safetensors.SafetensorError) as error:
        problem = f"truncated or not a safetensors file ({error})"
        raise InputUnusable(str(path), problem) from error


def _names(file: safetensors.safe_open) -> list[str]:
    return list(file.keys())  # type: ignore[no-untyped-call]


def _get(file: safetensors.safe_open, name: str) -> Tensor:
    tensor: Tensor = file.get_tensor(name)  # type: ignore[no-untyped-call]
    return tensor
