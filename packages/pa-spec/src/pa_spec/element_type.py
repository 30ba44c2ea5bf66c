"""Element types of tensors, without a tensor library."""

from __future__ import annotations

from enum import Enum


class ElementType(Enum):
    """An ONNX element type, by its ONNX spelling."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8E4M3FN = "float8e4m3fn"
    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOL = "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]


_ITEMSIZE = {
    ElementType.FLOAT32: 4,
    ElementType.FLOAT16: 2,
    ElementType.BFLOAT16: 2,
    ElementType.FLOAT8E4M3FN: 1,
    ElementType.INT8: 1,
    ElementType.UINT8: 1,
    ElementType.INT32: 4,
    ElementType.INT64: 8,
    ElementType.FLOAT64: 8,
    ElementType.BOOL: 1,
}
