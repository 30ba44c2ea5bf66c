"""How far a backend may be from the oracle in float64, by element type of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Tolerance:
    """absolute + relative * |expected|, for values of about unit size, and why."""

    absolute: float
    relative: float
    reason: str


TOLERANCES: Mapping[torch.dtype, Tolerance] = MappingProxyType(
    {
        torch.float32: Tolerance(
            3e-5,
            3e-5,
            "sums over up to a few thousand keys in any order: 2^-24 * sqrt(4096) = 4e-6, and "
            "logits of size 8 enter an exponential, whose relative error is their absolute one",
        ),
        torch.float16: Tolerance(
            6e-3,
            6e-3,
            "query, cached keys and output are rounded to 2^-11 each; logits of size 8 carry "
            "8 * 2^-11 = 4e-3 into the exponential",
        ),
        torch.bfloat16: Tolerance(
            4e-2,
            4e-2,
            "as float16 with 2^-8: logits of size 8 carry 8 * 2^-8 = 3e-2 into the exponential",
        ),
    }
)
"""One row per element type; the only place where tests take tolerances from."""


def expect_close(actual: Tensor, expected: Tensor, dtype: torch.dtype | None = None) -> None:
    """Raise AssertionError unless the values are close; NaN and infinities must coincide.

    dtype: row of TOLERANCES, by default actual's element type.
    """
    tolerance = TOLERANCES[dtype or actual.dtype]
    torch.testing.assert_close(
        actual.double(),
        expected.double(),
        atol=tolerance.absolute,
        rtol=tolerance.relative,
        equal_nan=True,
    )


def expect_rounded(actual: Tensor, expected: Tensor) -> None:
    """Raise AssertionError unless this is an output of float32 arithmetic, rounded once.

    expected: of the oracle in float64 over the caches that `actual` came from. What a bound for any
    backend must allow is then left out: rounded queries, keys and probabilities. A few thousand
    keys make outputs small beside that bound, and a key too many would hide behind it.
    """
    _expect_near(actual, expected, roundings=1)


def _expect_near(actual: Tensor, expected: Tensor, roundings: int) -> None:
    limit = TOLERANCES[torch.float32]
    # One rounding to p bits moves a value by up to 2^-p of it, half of what finfo calls eps.
    rounding = 0.0 if actual.dtype == torch.float32 else torch.finfo(actual.dtype).eps / 2
    torch.testing.assert_close(
        actual.double(),
        expected.double(),
        atol=limit.absolute,
        rtol=limit.relative + roundings * rounding,
        equal_nan=True,
    )


_RARELY = 1e-3
"""Share of codes that may be one step away: the tolerance of float32 moves a value of 30 steps by
1e-3 steps, and thresholds are a step apart."""


def expect_stored(actual: Tensor, expected: Tensor) -> None:
    """Raise AssertionError unless a cache holds what the oracle in float64 stores there.

    actual, expected: of one element type. Floats may differ by one rounding of that type beside the
    tolerance of float32, in which every prologue computes; codes of int8 and float8_e4m3fn may be
    one step apart, rarely. NaN must coincide.
    """
    if actual.element_size() == 1:
        _expect_codes(_steps(actual), _steps(expected))
        return
    _expect_near(actual, expected, roundings=2)


def _expect_codes(actual: Tensor, expected: Tensor) -> None:
    apart = (actual - expected).abs()
    farthest = max(apart.flatten().tolist(), default=0)
    assert farthest <= 1, f"codes are {farthest} steps apart"
    count = int(apart.count_nonzero())
    assert count <= 1 + _RARELY * apart.numel(), f"{count} of {apart.numel()} codes differ"


def _steps(codes: Tensor) -> Tensor:
    """Return int64 numbers in the order of the values, neighbours one apart; both zeros are 0."""
    if codes.dtype == torch.int8:
        return codes.long()
    bits = codes.view(torch.uint8).long()
    return (bits & 0x7F).where(bits < 0x80, -(bits & 0x7F))
