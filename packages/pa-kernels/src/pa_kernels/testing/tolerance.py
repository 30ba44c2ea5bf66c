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
