"""The tensors that families store, as spec/models/tensors.toml has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from pa_spec.contract.data import by_id, records, table

_FILE = "models/tensors.toml"


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor, or one for each index below count; the fields are expressions."""

    name: str
    shape: str
    when: str = ""
    count: str = ""
    optional: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class TensorPart:
    """Tensors that layouts share: of the model, or of each layer where `when` holds."""

    id: str
    scope: str
    tensors: tuple[TensorRow, ...]
    when: str = ""


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """What models of some types store.

    parts: ids; "a | b" is whichever of them the checkpoint has. sizes: expressions by name, the
    general ones included. prefixes: what may stand before the body's names, () = the usual.
    """

    model_types: tuple[str, ...]
    parts: tuple[str, ...]
    sizes: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    layers: str = "layers"
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorPrefix:
    """What stands before the names of a decoder's body, and before its head's."""

    body: str
    head: str


@cache
def tensor_layouts() -> Mapping[str, TensorLayout]:
    """Return the layouts by model type."""
    general = table(_FILE)["sizes"]
    rows = [row | {"sizes": general | row.get("sizes", {})} for row in table(_FILE)["layout"]]
    layouts = records(TensorLayout, rows)
    return MappingProxyType({each: layout for layout in layouts for each in layout.model_types})


@cache
def tensor_parts() -> Mapping[str, TensorPart]:
    """Return the parts by id."""
    rows = [row | {"tensors": records(TensorRow, row["tensors"])} for row in table(_FILE)["part"]]
    return by_id([TensorPart(**row) for row in rows])


def tensor_prefixes(layout: TensorLayout) -> tuple[TensorPrefix, ...]:
    """Return the prefixes that checkpoints of a layout may have, in the order of trying."""
    if layout.prefixes:
        return tuple(TensorPrefix(each, "") for each in layout.prefixes)
    return records(TensorPrefix, table(_FILE)["prefix"])


def ignored_ends() -> tuple[str, ...]:
    """Return the ends of names that old exports left behind."""
    return tuple(table(_FILE)["ignored"])
