"""The tables of configuration keys and of the state that a decoder keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from pa_spec.contract.data import by_id, records, table
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind

_GROUPS = "manifest/state_groups.toml"


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration key (spec/config/engine.toml says what the fields mean)."""

    key: str
    type: str
    allowed: str
    status: str
    meaning: str
    default: bool | int | float | None = None
    field: str = ""
    field_default: bool | int | float | None = None
    feature: str = ""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One kind of decoder state: what owns a row, and the row's shape."""

    kind: GroupKind
    owner: str
    row: str
    exactly_one: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class StateBinding:
    """A template of tensor names that binds state to a model; %d is the layer id."""

    name: str
    kind: GroupKind
    direction: str
    default: str
    also_seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """A tensor of a step beside the decoder's state (spec/manifest/tensors.toml)."""

    key: str
    direction: str
    shape: str
    meaning: str
    default: str = ""
    is_template: bool = False
    is_required: bool = False
    types: tuple[ElementType, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelObject:
    """The keys of one object of a model's configuration (spec/config/model.toml)."""

    object: str
    keys: tuple[str, ...]
    meaning: str


@cache
def settings() -> Mapping[str, Setting]:
    """Return the configuration keys."""
    return by_id(records(Setting, table("config/engine.toml")["setting"]), "key")


@cache
def state_group_kinds() -> Mapping[GroupKind, GroupRecord]:
    """Return the kinds of decoder state."""
    rows = records(GroupRecord, table(_GROUPS)["group"])
    return MappingProxyType({row.kind: row for row in rows})


@cache
def state_bindings() -> Mapping[str, StateBinding]:
    """Return the name templates that bind state."""
    return by_id(records(StateBinding, table(_GROUPS)["binding"]), "name")


@cache
def model_tensors() -> Mapping[str, ModelTensor]:
    """Return the tensors that a step feeds and takes, beside state, by their key."""
    return by_id(records(ModelTensor, table("manifest/tensors.toml")["tensor"]), "key")


@cache
def model_objects() -> Mapping[str, ModelObject]:
    """Return the objects of a model's configuration with their keys."""
    return by_id(records(ModelObject, table("config/model.toml")["object"]), "object")
