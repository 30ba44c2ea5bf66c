"""A problem on every eligible implementation of this machine, compared with GroupQueryAttention."""

from __future__ import annotations

import torch
from dense_rows import DenseRow, dense_rows
from every_backend import eligible
from gqa_rows import GqaRow, staged_row, whole_row
from pa_kernels.testing import PagedProblem, expect_close, expect_stored
from torch import Tensor

_PROBABILITIES = 2


def expect_parity(problem: PagedProblem) -> None:
    """Compare outputs, score matrices and both pools, row by row and slot by slot."""
    is_whole = problem.inputs.key_cache.dtype == torch.float32
    is_whole &= problem.inputs.slot_mapping is None
    rows = list(dense_rows(problem))
    for kernel in eligible(problem.signature):
        own = problem.clone()
        outputs = kernel.run(own.inputs, own.attributes)
        expected = [
            whole_row(problem, row) if is_whole else staged_row(problem, own, row) for row in rows
        ]
        for row, found in zip(rows, expected, strict=True):
            expect_close(outputs.output[row.tokens], found.output)
            if outputs.output_qk is not None:
                assert found.scores is not None
                expect_scores(outputs.output_qk[:, row.tokens], found.scores, problem, row)
        expect_caches(problem, own, expected)


def expect_scores(ours: Tensor, theirs: Tensor, problem: PagedProblem, row: DenseRow) -> None:
    """Compare score matrices [H, n, at most context columns] where the mask lets them through.

    Outside it the node has 0. Ours has -inf before the softmax and 0 behind it, there and in the
    columns beyond the context.
    """
    masked = 0.0 if problem.attributes.qk_output == _PROBABILITIES else -torch.inf
    key, last = torch.arange(ours.shape[2]), row.past + torch.arange(row.new)[:, None]
    window = problem.attributes.local_window_size
    is_visible = (key <= last) & (key > last - window if window > 0 else key >= 0)
    assert bool((ours == masked).where(~is_visible, other=True).all())

    width = min(row.context, ours.shape[2])
    inside = is_visible[:, :width]
    expect_close(ours[..., :width].where(inside, 0.0), theirs[..., :width].where(inside, 0.0))


def expect_caches(before: PagedProblem, after: PagedProblem, rows: list[GqaRow]) -> None:
    """Compare both pools with the old ones into which the oracle's heads are written."""
    for name, part, scale in (
        ("key_cache", "key", before.inputs.k_scale),
        ("value_cache", "value", before.inputs.v_scale),
    ):
        cache = getattr(before.inputs, name)
        expected = cache.clone().flatten(0, 1)
        codes = _bytes(expected)
        for row, found in zip(dense_rows(before), rows, strict=True):
            slot = row.slot[row.past :]
            if before.inputs.slot_mapping is not None:
                slot = before.inputs.slot_mapping[row.tokens].long()
            stored = _bytes(stored_as(getattr(found, part), scale, cache.dtype))
            codes[slot[slot >= 0]] = stored[slot >= 0]
        expect_stored(getattr(after.inputs, name).flatten(0, 1), expected)


def stored_as(values: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Convert heads [n, K, D] to a cache's element type (8.5), with torch's own conversions."""
    if scale is None:
        return values.to(dtype)
    steps = values / (scale if scale.numel() == 1 else scale[:, 0])
    if dtype == torch.int8:
        return steps.round().clamp(-128, 127).to(dtype)
    return steps.clamp(-448, 448).to(dtype)


def _bytes(cache: Tensor) -> Tensor:
    """Return a view that indexed assignment knows, whatever the element type."""
    return cache.view(torch.uint8) if cache.element_size() == 1 else cache
