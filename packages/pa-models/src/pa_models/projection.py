"""Matrix products with fixed weights: packed for the CPU's matrix units where that works."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, final

import torch
from torch import Tensor
from torch.nn import functional

# The row count that the packed layout is chosen for; measured at 1, 16, 64 and 1,024 rows the
# layout for 16 was within 3 % of the best one everywhere.
_PACKED_ROWS = 16


class Projection(Protocol):
    """y = x W^T + b with a weight that never changes."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Project rows [n, in features] to [n, out features]."""


def make_projection(weight: Tensor, bias: Tensor | None = None) -> Projection:
    """Choose the fastest projection for a weight [out, in] and bias [out]."""
    if weight.device.type == "cpu" and _packing_works(weight.dtype):
        return PackedProjection(weight, bias)
    return PlainProjection(weight, bias)


@final
class PlainProjection:
    """The tensor library's own linear layer."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        """Project rows [n, in features] to [n, out features]."""
        return functional.linear(rows, self._weight, self._bias)


@final
class PackedProjection:
    """A linear layer whose weight was reordered once into the CPU library's blocked layout.

    Two to four times faster than reordering in every call (bench.py measures it). It rests on
    operators of torch's compiler that are no public promise: `make_projection` uses it only
    after a trial run gave the right numbers.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        reorder = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001
        self._weight = reorder(weight, _PACKED_ROWS)
        self._bias = bias
        self._linear = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001

    def __call__(self, rows: Tensor) -> Tensor:
        """Project rows [n, in features] to [n, out features]."""
        product: Tensor = self._linear(rows, self._weight, self._bias, "none", [], "")
        return product


@lru_cache(maxsize=8)
def _packing_works(dtype: torch.dtype) -> bool:
    """Try the packed operators on a small product and compare."""
    has_library = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if dtype not in (torch.float32, torch.bfloat16) or not has_library:
        return False
    numbers = torch.arange(7 * 48, dtype=torch.float32).remainder_(11.0).sub_(5.0)
    rows, weight = numbers[: 3 * 16].view(3, 16).to(dtype), numbers[48:].view(18, 16).to(dtype)
    bias = numbers[:18].to(dtype)
    try:
        with torch.inference_mode():
            found = PackedProjection(weight, bias)(rows)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    return bool(
        torch.allclose(found.float(), functional.linear(rows, weight, bias).float(), rtol=0.02)
    )
