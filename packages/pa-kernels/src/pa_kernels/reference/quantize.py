"""Storing into and loading from a cache of any element type (contract section 8.5)."""

from __future__ import annotations

import torch
from torch import Tensor

_INT8_LIMITS = (-128.0, 127.0)
_FP8_LIMIT = 448.0


def to_cache(values: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Convert heads to what a cache of `dtype` stores.

    values: [T, K, D] computed. scale: None, [1], [K, 1, D] or [K, D] float32.
    """
    if scale is None:
        return values.to(dtype)
    scaled = values / _per_channel(scale, values)
    if dtype == torch.int8:
        # round is half to even; a NaN has no int8, and a cast of one would be undefined.
        return scaled.round().clamp(*_INT8_LIMITS).nan_to_num(nan=0.0).to(dtype)
    return scaled.clamp(-_FP8_LIMIT, _FP8_LIMIT).to(torch.float32).to(dtype)


def from_cache(stored: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Load heads [tokens, K, D] from a cache and compute in `dtype`."""
    if scale is None:
        return stored.to(dtype)
    loaded = stored.to(torch.float32).to(dtype)
    return loaded * _per_channel(scale, loaded)


def _per_channel(scale: Tensor, values: Tensor) -> Tensor:
    scale = scale.to(values.dtype)
    return scale if scale.numel() == 1 else scale.reshape(1, values.shape[1], values.shape[2])
