"""Whether two tensors of a model may be the same thing."""

from __future__ import annotations

from pa_spec.checker.tensor_text import type_text
from pa_spec.inference.shape import SymbolicShape, SymbolicTensor


def have_same_type(left: SymbolicTensor, right: SymbolicTensor) -> bool:
    """Return whether two tensors have one element type; an unknown one contradicts nothing."""
    return "unknown" in (type_text(left), type_text(right)) or type_text(left) == type_text(right)


def are_compatible(left: SymbolicShape, right: SymbolicShape) -> bool:
    """Return whether two shapes agree in rank and wherever both have a number."""
    if left is None or right is None:
        return True
    if len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    return not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
