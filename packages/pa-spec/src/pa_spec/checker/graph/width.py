"""Widths that weights of the companion operators must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pa_spec.checker.graph.companion import Companion
from pa_spec.inference.shape import SymbolicShape

_NORMS = (
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
)  # fmt: skip
_WIDE = ("beta", "bias", "gamma", "scale", "skip")


def is_judged(companion: Companion) -> bool:
    """Whether enough is known of an operator to say what it does not take."""
    return companion.name in _NORMS or "columns" in companion.shapes


def width_mistake(
    companion: Companion, shapes: Sequence[SymbolicShape], attributes: Mapping[str, object]
) -> str:
    """Return why an operator does not take inputs of these shapes, "" where it may.

    A normalization's weights are as wide as its input, and so is a quantized matrix.
    """
    shape = shapes[0] if shapes else None
    width = shape[-1] if shape else None
    if shape is None or not isinstance(width, int):
        return ""
    if companion.name in _NORMS and attributes.get("axis", -1) in (-1, len(shape) - 1):
        for slot, other in zip(companion.inputs, shapes, strict=False):
            found = other[-1] if other and slot.name in _WIDE else None
            if isinstance(found, int) and found not in (1, width):
                return f"{slot.name} is {found} wide, the input {width}"
    elif "columns" in companion.shapes:
        columns = attributes.get("K", width)
        if columns != width:
            return f"K is {columns}, the input {width} wide"
    return ""
