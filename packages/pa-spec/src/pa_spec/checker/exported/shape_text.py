"""Shapes and element types in words."""

from __future__ import annotations

from pa_spec.inference.shape import SymbolicShape, SymbolicTensor


def shape_text(shape: SymbolicShape) -> str:
    """Write a shape: "[num_blocks, ?, 3, 64]"."""
    if shape is None:
        return "an unknown shape"
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"


def type_text(tensor: SymbolicTensor) -> str:
    """Write an element type."""
    if tensor.element_type is None:
        return tensor.other_type or "unknown"
    return tensor.element_type.value


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
