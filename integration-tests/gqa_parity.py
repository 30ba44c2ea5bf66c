"""A problem on every eligible implementation of this machine, compared with GroupQueryAttention."""

from __future__ import annotations

import torch
from dense_rows import DenseRow, dense_rows
from every_backend import eligible
from gqa_rows import staged_row, whole_row
from pa_kernels.testing import PagedProblem, expect_close
from stored_rows import expect_caches
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
