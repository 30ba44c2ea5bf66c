"""Names, shapes and types of a model's tensors, in words."""

from __future__ import annotations

from pa_spec.inference.shape import Extent, SymbolicTensor

MAX_NAME = 120
"""Characters of one name in a line for people; a graph has names of paths, not of texts."""


def name_text(text: str) -> str:
    """Return a name from a file as findings may show it: printable, and not too long."""
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"


def shape_text(shape: tuple[Extent, ...] | None) -> str:
    """Write a shape as findings show it: "[num_tokens, ?, 64]"."""
    if shape is None:
        return "unknown shape"
    return f"[{', '.join('?' if each is None else name_text(str(each)) for each in shape)}]"


def type_text(tensor: SymbolicTensor) -> str:
    """Write an element type, "unknown" where none is known."""
    if tensor.element_type is None:
        return tensor.other_type or "unknown"
    return tensor.element_type.value


def tensor_text(tensor: SymbolicTensor) -> str:
    """Write a type and a shape: "float16 [num_tokens, 576]"."""
    known = tensor.element_type.value if tensor.element_type else tensor.other_type
    return f"{known or 'unknown type'} {shape_text(tensor.shape)}"
