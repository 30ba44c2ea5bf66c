"""model.safetensors.index.json: which tensor is in which file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.source import read_json
from pa_spec.checker.text import printable, shortened, shown

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """An index as it was written.

    shards: file → the names of its tensors. names: all names. total_size: what it states, None =
    nothing, or no whole number. is_complete: no entry was refused.
    """

    shards: Mapping[str, frozenset[str]]
    names: frozenset[str]
    total_size: int | None
    is_complete: bool


def read_index(folder: Path, findings: Findings) -> ShardIndex | None:
    """Read a folder's index, or return None after reporting why it cannot be used."""
    document = read_json(folder / INDEX, findings, INDEX)
    if document is None:
        return None
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        actual = shown(weight_map) if "weight_map" in document else "none"
        findings.add("weights.index_malformed", Place(INDEX), "weight_map", actual)
        return None
    shards: dict[str, set[str]] = {}
    is_complete = True
    refused: set[str] = set()
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            place = Place(INDEX, printable(shortened(name)))
            findings.add("weights.index_malformed", place, "weight_map", shown(shard))
            is_complete = False
        elif not _stays_inside(shard):
            is_complete = False
            refused.add(shard)
        else:
            shards.setdefault(shard, set()).add(name)
    for shard in sorted(refused):
        findings.add("weights.shard_outside", Place(INDEX), "weight_map", shown(shard))
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return ShardIndex(
        {shard: frozenset(names) for shard, names in sorted(shards.items())},
        frozenset(weight_map),
        total if type(total) is int else None,
        is_complete,
    )


def _stays_inside(shard: str) -> bool:
    """Say whether a name is that of a file in the folder, on any system."""
    plain = PurePosixPath(shard)
    foreign = PureWindowsPath(shard)
    leaves = ".." in plain.parts or ".." in foreign.parts or "\0" in shard
    return bool(plain.parts) and not (
        plain.is_absolute() or foreign.drive or foreign.root or leaves
    )
