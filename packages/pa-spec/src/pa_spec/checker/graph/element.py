"""Types and shapes as ONNX writes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

from pa_spec.element_type import ElementType
from pa_spec.inference.shape import Extent, SymbolicTensor

MAX_RANK = 64
"""Axes that are looked at; nothing real has more, and products of very many take long."""

MAX_ELEMENTS = 2**63 - 1

_SPELLINGS = {"float": "float32", "double": "float64"}


@cache
def spellings() -> dict[int, str]:
    """Return the name of each of ONNX's element types by its number."""
    from onnx import TensorProto

    names = {number: name.lower() for name, number in TensorProto.DataType.items()}
    return {number: _SPELLINGS.get(name, name) for number, name in names.items()}


@cache
def numbers() -> dict[str, int]:
    """Return the number of each of ONNX's element types by its name."""
    return {name: number for number, name in spellings().items()}


def lengths_of(dims: Sequence[int]) -> tuple[int, ...] | None:
    """Return a stored tensor's dimensions, None when no tensor has such."""
    if len(dims) > MAX_RANK or min(dims, default=0) < 0 or prod(dims) > MAX_ELEMENTS:
        return None
    return tuple(dims)


def tensor_of(number: int, shape: tuple[Extent, ...] | None) -> SymbolicTensor:
    """Return a tensor of ONNX's element type with that number; 0 = unknown."""
    if number == 0:
        return SymbolicTensor(None, shape)
    name = spellings().get(number, f"element type {number}")
    if name in _ELEMENT_TYPES:
        return SymbolicTensor(_ELEMENT_TYPES[name], shape)
    return SymbolicTensor(None, shape, name)


def tensor_of_type(proto: Any) -> SymbolicTensor:
    """Return what a TypeProto says; a type that is no tensor is only named."""
    # Most of a graph's thousands of types are a few dozen, and comparing bytes is quick.
    return _tensor_of_bytes(proto.SerializeToString())


@lru_cache(maxsize=16384)
def _tensor_of_bytes(data: bytes) -> SymbolicTensor:
    from onnx import TypeProto

    proto = TypeProto.FromString(data)
    kind = proto.WhichOneof("value")
    if kind is None:
        return SymbolicTensor(None, None)
    if kind != "tensor_type":
        return SymbolicTensor(None, None, kind.removesuffix("_type"))
    tensor = proto.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(_extent(dim) for dim in tensor.shape.dim[:MAX_RANK])
    return tensor_of(tensor.elem_type, shape)


def _extent(dim: Any) -> Extent:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        # A negative length is how some exporters write an unknown one.
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) or None if kind == "dim_param" else None


_ELEMENT_TYPES = {each.value: each for each in ElementType}
