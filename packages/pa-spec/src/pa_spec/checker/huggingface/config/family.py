"""What is known of model families: the tables of spec/models, looked up by model_type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pa_spec.checker.huggingface.config.declaration import declarations
from pa_spec.contract.data import by_id, names, records, table


@dataclass(frozen=True, slots=True)
class Family:
    """How transformers' own code reads one model_type (spec/models/dense.toml says what is what).

    rules: what else the family's resolver reads, by its own words.
    """

    model_type: str
    architectures: tuple[str, ...]
    defaults: Mapping[str, Any]
    resolver: str = "dense"
    nullable: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    head_size: str = "key"
    reads_kv_heads: bool = True
    heads_divide_hidden: bool = False
    scale: str = "head_size"
    softcap: str = ""
    qk_norm: str = "never"
    has_sink: bool = False
    windows: str = "none"
    pattern: int = 0
    pattern_key: str = ""
    rope: str = "one"
    rope_layers: str = "all"
    default_theta: float = 10000.0
    local_theta: float = 0.0
    local_theta_key: str = ""
    default_rope: Mapping[str, Any] = field(default_factory=dict)
    rotates_part: bool = False
    is_interleaved: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nested:
    """A configuration whose decoder is inside, under text_key.

    text_model_type: what the inside is when it does not say; is_fixed: whatever it says.
    defaults: what the decoder is when the inside is missing. has_tied_embeddings: the class
    default of the outer flag, which is the one that counts. tie_key: the key that overrules it.
    is_tied_inside: the decoder's own flag counts instead. is_tied_by_either: one of both is enough.
    may_be_flat: older files have the decoder's keys at the top.
    """

    model_type: str
    architectures: tuple[str, ...]
    text_key: str
    text_model_type: str
    is_fixed: bool = False
    has_tied_embeddings: bool = False
    tie_key: str = ""
    is_tied_inside: bool = False
    is_tied_by_either: bool = False
    may_be_flat: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A model_type that is refused: the kind of finding (config.<kind>) and why."""

    model_type: str
    kind: str
    reason: str


@cache
def families() -> Mapping[str, Family]:
    """Return every family by its model_type."""
    rows = [_with_class_defaults(row) for row in _rows("family")]
    return by_id(records(Family, rows), "model_type")


@cache
def nested_models() -> Mapping[str, Nested]:
    """Return every kind of nested configuration by its outer model_type."""
    return by_id(records(Nested, _rows("nested")), "model_type")


@cache
def refusals() -> Mapping[str, Refusal]:
    """Return every refused model_type."""
    return by_id(records(Refusal, _rows("refusal")), "model_type")


def _with_class_defaults(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults that a family's class has for keys that only its tensors depend on."""
    name = row.get("rules", {}).get("read_as", row["model_type"])
    declared = declarations().get(name)
    defaults = dict(declared.defaults) if declared is not None else {}
    return {**row, "defaults": {**defaults, **row["defaults"]}}


def _rows(kind: str) -> list[Mapping[str, Any]]:
    files = names("models", ".toml")
    return [row for file in files for row in table(f"models/{file}.toml").get(kind, ())]
