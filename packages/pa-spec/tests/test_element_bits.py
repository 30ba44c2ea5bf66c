"""Numbers that numpy has no type for: rounding to the nearest, ties to even, and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import ElementType
from pa_spec.conformance import decode, encode, storage_dtype

BFLOAT16, FLOAT8 = ElementType.BFLOAT16, ElementType.FLOAT8E4M3FN
LARGEST_BFLOAT16 = (2 - 2**-7) * 2.0**127


def test_bits_are_unsigned_and_everything_else_is_numpys_own() -> None:
    assert storage_dtype(BFLOAT16) == np.uint16
    assert storage_dtype(FLOAT8) == np.uint8
    assert storage_dtype(ElementType.FLOAT16) == np.float16
    assert storage_dtype(ElementType.INT8) == np.int8


@pytest.mark.parametrize(
    ("element_type", "number", "bits"),
    [
        (BFLOAT16, 1.0, 0x3F80),
        (BFLOAT16, -2.0, 0xC000),
        (BFLOAT16, 1 + 2**-8, 0x3F80),  # a tie goes to the even neighbour
        (BFLOAT16, 1 + 3 * 2**-8, 0x3F82),
        (BFLOAT16, 1 + 2**-8 + 2**-40, 0x3F81),  # no tie: float32 would make it one
        (BFLOAT16, LARGEST_BFLOAT16, 0x7F7F),
        (BFLOAT16, 2.0**128, 0x7F80),
        (BFLOAT16, -math.inf, 0xFF80),
        (BFLOAT16, math.nan, 0x7FC0),
        (BFLOAT16, -0.0, 0x8000),
        (FLOAT8, 1.0, 0x38),
        (FLOAT8, -1.0, 0xB8),
        (FLOAT8, 448.0, 0x7E),
        (FLOAT8, 1e9, 0x7E),
        (FLOAT8, -math.inf, 0xFE),
        (FLOAT8, 2.0**-9, 0x01),
        (FLOAT8, 2.0**-10, 0x00),
        (FLOAT8, math.nan, 0x7F),
    ],
)
def test_a_number_has_its_bits(element_type: ElementType, number: float, bits: int) -> None:
    assert int(encode(number, element_type)) == bits


@pytest.mark.parametrize("element_type", [BFLOAT16, FLOAT8])
def test_every_pattern_but_those_of_nan_and_infinity_comes_back(element_type: ElementType) -> None:
    codes = np.arange(256**element_type.itemsize).astype(storage_dtype(element_type))
    numbers = decode(codes, element_type)

    again = encode(numbers, element_type)

    finite = np.isfinite(numbers)
    assert np.array_equal(again[finite], codes[finite])
    assert np.isnan(decode(again[np.isnan(numbers)], element_type)).all()


@given(st.floats(-500, 500), st.sampled_from([BFLOAT16, FLOAT8]))
def test_no_neighbour_is_nearer(number: float, element_type: ElementType) -> None:
    limited = max(-448.0, min(448.0, number)) if element_type is FLOAT8 else number
    code = int(encode(number, element_type))
    found = float(decode(np.array(code, storage_dtype(element_type)), element_type))

    sign = 1 << (8 * element_type.itemsize - 1)
    for other in {code - 1, code + 1} - {sign - 1, 2 * sign, -1}:
        value = float(decode(np.array(other, storage_dtype(element_type)), element_type))
        if math.isfinite(value):
            assert abs(found - limited) <= abs(value - limited)
