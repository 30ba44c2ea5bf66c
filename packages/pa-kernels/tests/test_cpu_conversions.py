"""Element types of the compiled backend, each code and each edge, against torch's conversions."""

from __future__ import annotations

import pytest
import torch
from pa_kernels import _cpu
from torch import Tensor

UNITS = _cpu.available_units()
FLOATS = {
    "float16": (_cpu.Dtype.FLOAT16, torch.float16),
    "bfloat16": (_cpu.Dtype.BFLOAT16, torch.bfloat16),
    "float8_e4m3fn": (_cpu.Dtype.FLOAT8E4M3FN, torch.float8_e4m3fn),
}


def rounded(unit: str, dtype: _cpu.Dtype, values: Tensor) -> Tensor:
    result = torch.empty_like(values)
    _cpu.map_round(unit, dtype, values.data_ptr(), result.data_ptr(), values.numel())
    return result


def every_code(dtype: torch.dtype) -> Tensor:
    bits = 8 * dtype.itemsize
    codes = torch.arange(2**bits, dtype=torch.int32)
    narrow = codes.to(torch.uint8) if bits == 8 else codes.to(torch.uint16)
    return narrow.view(dtype).to(torch.float32)


def between(values: Tensor) -> Tensor:
    """Every value, the midpoints of neighbours, and the numbers beside those."""
    finite = torch.unique(values[torch.isfinite(values)])
    middle = (finite[1:].double() + finite[:-1].double()).div(2).float()
    infinity = torch.tensor(torch.inf)
    return torch.cat(
        (values, middle, torch.nextafter(middle, infinity), torch.nextafter(middle, -infinity))
    )


def same(found: Tensor, expected: Tensor) -> bool:
    is_nan = expected.isnan()
    both = torch.equal(found.isnan(), is_nan)
    signs = torch.equal(found[~is_nan].signbit(), expected[~is_nan].signbit())
    return both and signs and torch.equal(found[~is_nan], expected[~is_nan])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", FLOATS)
def test_every_code_and_every_midpoint_round_as_torch_rounds(unit: str, name: str) -> None:
    code, dtype = FLOATS[name]
    values = between(every_code(dtype))
    if dtype == torch.float8_e4m3fn:
        # What the cache cannot hold saturates (8.5); torch makes it NaN.
        values = torch.cat((values, torch.tensor([448.0, 449.0, 1e30, torch.inf, -torch.inf])))
        expected = values.clamp(-448, 448).to(dtype).float()
    else:
        values = torch.cat((values, torch.tensor([65519.0, 65520.0, 3.4e38, 1e-45, -1e-45])))
        expected = values.to(dtype).float()

    assert same(rounded(unit, code, values), expected)


@pytest.mark.parametrize("unit", UNITS)
def test_int8_rounds_half_to_even_saturates_and_has_no_nan(unit: str) -> None:
    pairs = {0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -1.5: -2, -2.5: -2, 0.49999997: 0, -0.0: 0, 3.0: 3}
    pairs |= {126.5: 126, 127.4: 127, 127.5: 127, 128.0: 127, 1e30: 127, torch.inf: 127}
    pairs |= {-127.5: -128, -128.4: -128, -128.5: -128, -1e30: -128, -torch.inf: -128}
    values = torch.tensor([*pairs, torch.nan])

    found = rounded(unit, _cpu.Dtype.INT8, values)

    assert found.tolist() == [*pairs.values(), 0]
