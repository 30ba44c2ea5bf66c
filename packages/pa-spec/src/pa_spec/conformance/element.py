"""Arrays of every element type: how numbers that numpy has no type for are written down.

float16, float32 and the integers are numpy's own. bfloat16 is uint16 and float8e4m3fn is uint8,
each entry the bits of one number; a call's signature says which array is what.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pa_spec.arrays import Float64Array
from pa_spec.element_type import ElementType

Array: TypeAlias = NDArray[Any]

_BITS: dict[ElementType, np.dtype[Any]] = {
    ElementType.BFLOAT16: np.dtype(np.uint16),
    ElementType.FLOAT8E4M3FN: np.dtype(np.uint8),
}
_INTEGERS = frozenset(
    {ElementType.INT8, ElementType.UINT8, ElementType.INT32, ElementType.INT64, ElementType.BOOL}
)
_FLOAT8_LIMIT = 448.0


def storage_dtype(element_type: ElementType) -> np.dtype[Any]:
    """Return the numpy type that holds an element type: its own, or the bits of one."""
    bits = _BITS.get(element_type)
    return np.dtype(element_type.value) if bits is None else bits


def encode(values: ArrayLike, element_type: ElementType) -> Array:
    """Round numbers to an element type, to the nearest, ties to even; returns its storage.

    float8e4m3fn saturates at 448, as a store into a cache does; the wider types overflow to
    infinity. NaN stays NaN, with a positive sign in bits.
    """
    numbers = np.asarray(values, np.float64)
    if element_type is ElementType.BFLOAT16:
        return _nearest(numbers, element_type, infinity=0x7F80, nan=0x7FC0)
    if element_type is ElementType.FLOAT8E4M3FN:
        limited = np.clip(numbers, -_FLOAT8_LIMIT, _FLOAT8_LIMIT)
        return _nearest(limited, element_type, infinity=0x7E, nan=0x7F)
    with np.errstate(over="ignore", under="ignore"):
        return numbers.astype(storage_dtype(element_type))


def decode(array: Array, element_type: ElementType) -> Float64Array:
    """Return the numbers that an array of an element type stands for, exactly."""
    if element_type is ElementType.BFLOAT16:
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            wide = (array.astype(np.uint32) << 16).view(np.float32)
            return wide.astype(np.float64)
    if element_type is ElementType.FLOAT8E4M3FN:
        return _float8_numbers()[array]
    return np.asarray(array, np.float64)


def is_integer(element_type: ElementType) -> bool:
    """Say whether an element type has no NaN to mark what nobody may read."""
    return element_type in _INTEGERS


@cache
def _float8_numbers() -> Float64Array:
    """Return all 256 numbers of float8e4m3fn: 4 exponent bits of bias 7, 3 of mantissa."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    normal = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, normal)
    magnitude[(code & 0x7F) == 0x7F] = np.nan
    numbers: Float64Array = np.where(code & 0x80, -magnitude, magnitude)
    return numbers


@cache
def _magnitudes(element_type: ElementType) -> tuple[Float64Array, Float64Array]:
    """Return the finite magnitudes of a type by code, and the middle behind each of them."""
    if element_type is ElementType.FLOAT8E4M3FN:
        numbers = _float8_numbers()[:0x7F]
        return numbers, (numbers[:-1] + numbers[1:]) / 2
    codes = np.arange(0x7F80, dtype=np.uint16)
    numbers = decode(codes, ElementType.BFLOAT16)
    # The first number beyond the range decides what overflows.
    behind = np.append(numbers[1:], 2.0**128)
    return numbers, (numbers + behind) / 2


def _nearest(numbers: Float64Array, element_type: ElementType, infinity: int, nan: int) -> Array:
    _, middles = _magnitudes(element_type)
    magnitude = np.abs(numbers)
    code = np.searchsorted(middles, magnitude, side="left")
    # On a tie the even code of the two wins.
    is_tie = middles[np.minimum(code, len(middles) - 1)] == magnitude
    code = np.minimum(np.where(is_tie & (code % 2 == 1), code + 1, code), infinity)
    sign = 1 << (8 * element_type.itemsize - 1)
    code = np.where(np.isnan(numbers), nan, code + np.where(np.signbit(numbers), sign, 0))
    return code.astype(storage_dtype(element_type))
