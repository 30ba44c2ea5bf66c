"""What configuration classes declare about keys that no resolver reads: types, null, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from pa_spec.contract.data import by_id, records, table

_FILE = "models/classes.toml"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the configuration class of one model_type declares.

    keys: those that it has and that may not be null; nullable: those that may. is_choice_fixed:
    its router takes as many experts whatever num_experts_per_tok says. defaults: of keys that are
    not written.
    """

    model_type: str
    keys: tuple[str, ...]
    nullable: tuple[str, ...] = ()
    is_choice_fixed: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def declares(self, key: str) -> bool:
        """Whether the class has the key."""
        return key in self.keys or key in self.nullable


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return what classes declare, by model_type."""
    return by_id(records(Declaration, table(_FILE)["class"]), "model_type")


@cache
def key_types() -> Mapping[str, str]:
    """Return the type of every key that some class declares."""
    types = table(_FILE)["types"]
    return MappingProxyType({key: name for name, keys in types.items() for key in keys})


@cache
def activations() -> frozenset[str]:
    """Return the names of activation functions."""
    return frozenset(table(_FILE)["activations"])


NOTHING = Declaration("", ())
"""What is known of a class that is not transformers' own."""
