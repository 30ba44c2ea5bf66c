"""What the pools hold after a call, when an oracle has said which heads go where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from dense_rows import dense_rows
from pa_kernels.testing import PagedProblem, expect_stored
from torch import Tensor


@dataclass(frozen=True, slots=True)
class OracleRow:
    """An oracle's row, as floats.

    output: [n, H*Dv]. key, value: [n, K, D], what the row's tokens store; value None in LATENT.
    scores: [H, n, context].
    """

    output: Tensor
    key: Tensor
    value: Tensor | None
    scores: Tensor | None = None


def expect_caches(before: PagedProblem, after: PagedProblem, rows: Sequence[OracleRow]) -> None:
    """Compare both pools with the old ones into which the oracle's heads are written.

    rows: one for each of dense_rows(before).
    """
    inputs = before.inputs
    for name, parts, scale in (
        ("key_cache", [row.key for row in rows], inputs.k_scale),
        ("value_cache", [row.value for row in rows], inputs.v_scale),
    ):
        cache = getattr(inputs, name)
        if cache is None:
            continue
        expected = cache.clone().flatten(0, 1)
        codes = _bytes(expected)
        for row, part in zip(dense_rows(before), parts, strict=True):
            assert part is not None
            slot = row.slot[row.past :]
            if inputs.slot_mapping is not None:
                slot = inputs.slot_mapping[row.tokens].long()
            is_stored = (slot >= 0) & (slot < len(expected))
            stored = _bytes(stored_as(part, scale, cache.dtype))
            codes[slot[is_stored]] = stored[is_stored]
        expect_stored(getattr(after.inputs, name).flatten(0, 1), expected)


def stored_as(heads: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Convert heads [n, K, D] to a cache's element type (8.5), with torch's own conversions.

    scale: None, [1] or [K, 1, D].
    """
    if scale is None:
        return heads.to(dtype)
    steps = heads / (scale if scale.numel() == 1 else scale[:, 0])
    if dtype == torch.int8:
        return steps.round().clamp(-128, 127).to(dtype)
    return steps.clamp(-448, 448).to(torch.float32).to(dtype)


def _bytes(cache: Tensor) -> Tensor:
    """Return a view that indexed assignment knows, whatever the element type."""
    return cache.view(torch.uint8) if cache.element_size() == 1 else cache
