"""Shapes and types of the operator's outputs, with extents that may be symbolic."""

from pa_spec.inference.listing import check_outputs
from pa_spec.inference.output import SymbolicCall, infer_head_size, infer_outputs, is_packed
from pa_spec.inference.shape import Extent, SymbolicShape, SymbolicTensor

__all__ = [
    "Extent",
    "SymbolicCall",
    "SymbolicShape",
    "SymbolicTensor",
    "check_outputs",
    "infer_head_size",
    "infer_outputs",
    "is_packed",
]
