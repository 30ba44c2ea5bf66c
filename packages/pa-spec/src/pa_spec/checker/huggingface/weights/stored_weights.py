"""Which tensors a folder stores, and in which files; nothing of their data is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.weights.header_entry import StoredTensor
from pa_spec.checker.huggingface.weights.safetensors_header import read_header
from pa_spec.checker.huggingface.weights.shard_index import INDEX, ShardIndex, read_index
from pa_spec.checker.source import reason_of
from pa_spec.checker.text import printable, shortened

SINGLE = "model.safetensors"
OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".msgpack", ".h5", ".gguf", ".onnx", ".npz")
MAX_ENTRIES = 100_000
"""Names of a folder that are looked at; the largest models have some hundred files."""


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """All tensors of a folder.

    tensors: by name. unknown: names that are stored, or promised by the index, whose shape could
    not be read; why was reported. is_complete: every file could be read, so what is not here is
    nowhere.
    """

    tensors: Mapping[str, StoredTensor]
    unknown: frozenset[str] = frozenset()
    is_complete: bool = True

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors whose entries could be read."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())


def read_weights(folder: Path, findings: Findings) -> StoredWeights | None:
    """Read the headers of a folder's safetensors, or return None after reporting why not."""
    names = _files(folder, findings)
    if names is None:
        return None
    if any(name.endswith(".gguf") for name in names) and _has_safetensors(names):
        gguf = next(name for name in names if name.endswith(".gguf"))
        findings.add("weights.gguf_beside", Place(), printable(shortened(gguf)), "a GGUF file")
    if INDEX in names:
        if SINGLE in names:
            findings.add("weights.two_checkpoints", Place(), SINGLE, f"it and {INDEX}")
        index = read_index(folder, findings)
        return None if index is None else _read_shards(folder, index, findings)
    if SINGLE in names:
        header = read_header(folder / SINGLE, findings, SINGLE)
        return None if header is None else StoredWeights(header.tensors, header.broken)
    _report_absence(names, findings)
    return None


def _files(folder: Path, findings: Findings) -> set[str] | None:
    names: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.add(entry.name)
                if len(names) >= MAX_ENTRIES:
                    break
    except OSError as error:
        findings.add("file.unreadable", Place(), folder.name, reason_of(error))
        return None
    return names


def _has_safetensors(names: Iterable[str]) -> bool:
    return any(name.endswith(".safetensors") for name in names)


def _report_absence(names: set[str], findings: Findings) -> None:
    found = sorted(name for name in names if name.endswith(".safetensors"))
    others = sorted(name for name in names if name.endswith(OTHER_FORMATS))
    if found:
        kind = "weights.index_missing"
    else:
        kind = "weights.other_format" if others else "weights.absent"
    shown = [printable(shortened(name)) for name in (found or others)[:3]]
    more = len(found or others) - len(shown)
    actual = ", ".join(shown) + (f" and {more} more" if more else "")
    findings.add(kind, Place(), "weights", actual or "none")


def _read_shards(folder: Path, index: ShardIndex, findings: Findings) -> StoredWeights:
    tensors: dict[str, StoredTensor] = {}
    unknown: set[str] = set()
    is_complete = index.is_complete
    for shard, promised in index.shards.items():
        if not os.path.lexists(folder / shard):
            findings.add("weights.shard_missing", Place(INDEX), shown_file(shard), "no such file")
            header = None
        else:
            header = read_header(folder / shard, findings, shown_file(shard))
        if header is None:
            unknown |= promised
            is_complete = False
            continue
        present = header.tensors.keys() | header.broken
        unknown |= header.broken | (promised - present)
        _compare(index, shard, present, findings)
        for name in sorted(present & tensors.keys()):
            files = f"in {shown_file(tensors[name].file)} and {shown_file(shard)}"
            place = Place(INDEX, printable(shortened(name)))
            findings.add("weights.in_two_shards", place, "tensor", files)
        # The file that the index names is the one whose tensor counts.
        tensors |= {
            name: tensor
            for name, tensor in header.tensors.items()
            if name not in tensors or name in promised
        }
    stored = StoredWeights(tensors, frozenset(unknown), is_complete)
    if is_complete and not unknown:
        _check_total(index, stored, findings)
    return stored


def _compare(index: ShardIndex, shard: str, present: Iterable[str], findings: Findings) -> None:
    names = set(present)
    for name in sorted(index.shards[shard] - names):
        place = Place(INDEX, printable(shortened(name)))
        findings.add("weights.not_in_shard", place, "tensor", "none", shard=shown_file(shard))
    for name in sorted(names - index.names):
        place = Place(shown_file(shard), printable(shortened(name)))
        findings.add("weights.not_in_index", place, "tensor", f"none in {INDEX}")


def _check_total(index: ShardIndex, stored: StoredWeights, findings: Findings) -> None:
    if index.total_size is not None and index.total_size != stored.num_bytes:
        place = Place(INDEX, "metadata.total_size")
        values = {"bytes": stored.num_bytes}
        findings.add("weights.total_size", place, "total_size", index.total_size, **values)


def shown_file(name: str) -> str:
    """Return a file's name so that it can be printed."""
    return printable(shortened(name))
