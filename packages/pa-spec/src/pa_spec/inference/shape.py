"""Shapes whose extents may be unknown or only named."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec.element_type import ElementType

Extent = int | str | None
"""One axis: its length, the name of a symbolic length ("num_tokens"), or None = unknown."""

SymbolicShape = tuple[Extent, ...] | None
"""A shape; None when not even the rank is known."""


@dataclass(frozen=True, slots=True)
class SymbolicTensor:
    """What a model file says of a tensor before it runs.

    element_type: None when unknown; other_type: its spelling when it is none of ElementType.
    """

    element_type: ElementType | None
    shape: SymbolicShape
    other_type: str = ""
