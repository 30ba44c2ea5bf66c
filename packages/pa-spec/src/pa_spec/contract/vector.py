"""Golden vectors: examples of the contract that every implementation must reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.contract.data import document, names
from pa_spec.errors import InputUnusable


def vector_names() -> tuple[str, ...]:
    """Return the names of all vector files."""
    return names("vectors", ".json")


def vectors(name: str) -> tuple[Mapping[str, Any], ...]:
    """Return the cases of a vector file; each has an "id" and the fields its file describes.

    Raises InputUnusable when there is no such file.
    """
    known = vector_names()
    if name not in known:
        raise InputUnusable(f"vectors {name!r}", "do not exist", ", ".join(known))
    return tuple(document(f"vectors/{name}.json")["cases"])
