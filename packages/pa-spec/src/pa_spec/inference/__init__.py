"""Shapes and types of the operator's outputs, with extents that may be symbolic."""

from pa_spec.inference.shape import Extent, SymbolicShape, SymbolicTensor

__all__ = ["Extent", "SymbolicShape", "SymbolicTensor"]
