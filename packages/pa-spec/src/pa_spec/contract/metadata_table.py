"""The tables about attention_metadata: its entries, and what they bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pa_spec.contract.data import by_id, records, table

_FILE = "operator/metadata.toml"


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One entry of attention_metadata; unknown: what 0 stands for; clamped: when too large."""

    index: int
    name: str
    meaning: str
    unknown: str
    clamped: str


@dataclass(frozen=True, slots=True)
class HostQuantity:
    """A number that host code needs: bound with metadata, fallback without."""

    name: str
    used_for: str
    bound: str
    fallback: str


@dataclass(frozen=True, slots=True)
class MetadataFact:
    """What else holds of attention_metadata."""

    id: str
    statement: str


@cache
def metadata_entries() -> tuple[MetadataEntry, ...]:
    """Return the entries in their order."""
    return records(MetadataEntry, table(_FILE)["entry"])


@cache
def host_quantities() -> Mapping[str, HostQuantity]:
    """Return the numbers that metadata bounds, by name."""
    return by_id(records(HostQuantity, table(_FILE)["quantity"]), "name")


@cache
def metadata_facts() -> Mapping[str, MetadataFact]:
    """Return what else holds, by id."""
    return by_id(records(MetadataFact, table(_FILE)["fact"]))
