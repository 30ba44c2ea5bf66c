"""The operator's tables: inputs, outputs, attributes, types, modes, old calls and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pa_spec.contract.data import by_id, records, table
from pa_spec.element_type import ElementType
from pa_spec.operator import KvCacheLayout


@dataclass(frozen=True, slots=True)
class OperatorInput:
    """One input. shape: the accepted shapes. pair: the input present exactly when this one is."""

    index: int
    name: str
    type: str
    shape: tuple[str, ...]
    presence: str
    meaning: str
    pair: str = ""
    absent: str = ""
    memory: str = "device"


@dataclass(frozen=True, slots=True)
class OperatorOutput:
    """One output. alias: the input whose buffer it is."""

    index: int
    name: str
    type: str
    shape: tuple[str, ...]
    presence: str
    meaning: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class OperatorAttribute:
    """One attribute. default: None for one that must be given."""

    name: str
    type: str
    allowed: tuple[str, ...]
    meaning: str
    default: int | float | str | None = None
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeConstraint:
    """The element types that a type name stands for; host_only: refused by GPU backends."""

    name: str
    allowed: tuple[ElementType, ...]
    host_only: tuple[ElementType, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class InputMode:
    """Which of key, value and value_cache are present, and what head size follows."""

    name: str
    kv_cache_layout: KvCacheLayout
    key: bool
    value: bool
    value_cache: bool
    head_size: str


@dataclass(frozen=True, slots=True)
class CompatibilityCondition:
    """What holds of an old model's calls: names are inputs or attributes, value what they are."""

    id: str
    names: tuple[str, ...]
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided where the documents are open or disagree; rules: the rules it touches."""

    id: str
    question: str
    decision: str
    reason: str
    rules: tuple[str, ...]


@cache
def operator_inputs() -> tuple[OperatorInput, ...]:
    """Return the inputs in the order of their indices."""
    return records(OperatorInput, table("operator/inputs.toml")["input"])


@cache
def operator_outputs() -> tuple[OperatorOutput, ...]:
    """Return the outputs in the order of their indices."""
    return records(OperatorOutput, table("operator/outputs.toml")["output"])


@cache
def operator_attributes() -> tuple[OperatorAttribute, ...]:
    """Return the attributes in the order of PagedAttentionAttributes."""
    return records(OperatorAttribute, table("operator/attributes.toml")["attribute"])


@cache
def type_constraints() -> Mapping[str, TypeConstraint]:
    """Return the type constraints by name."""
    rows = records(TypeConstraint, table("operator/type_constraints.toml")["type_constraint"])
    return by_id(rows, "name")


@cache
def input_modes() -> tuple[InputMode, ...]:
    """Return the legal patterns of query, key, value and value_cache."""
    return records(InputMode, table("operator/input_modes.toml")["input_mode"])


@cache
def compatibility() -> Mapping[str, CompatibilityCondition]:
    """Return what holds of every call of an old model, by id."""
    rows = table("operator/compatibility.toml")["condition"]
    return by_id(records(CompatibilityCondition, rows))


@cache
def decisions() -> Mapping[str, Decision]:
    """Return the decisions by id."""
    return by_id(records(Decision, table("operator/decisions.toml")["decision"]))
