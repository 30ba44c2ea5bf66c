"""ONNX Runtime's GroupQueryAttention agrees with every backend on every feature that both have.

Method: problems with shuffled and shared blocks, and the same ones with blocks in order; each row
is given to the node as dense tensors. gqa_oracle.py says where the two differ on purpose. Outputs
are compared in the one table of tolerances, caches slot by slot, those that nobody owns included.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from dense_rows import DenseRow, dense_rows, in_order
from every_backend import eligible
from gqa_rows import GqaRow, staged_row, whole_row
from pa_kernels.testing import (
    PagedProblem,
    ProblemOptions,
    expect_close,
    expect_stored,
    random_paged_problem,
)
from torch import Tensor

ROWS = ((0, 19), (18, 6), (16, 0), (37, 1))
"""A prompt, a chunk behind a past, a row without tokens, a decode row; blocks of 16."""

ON_OFF = (False, True)
ROTARY = {"no rope": (0, False), "halves": (32, False), "pairs": (32, True)}
STORAGE = {
    "float32": (torch.float32, None, "NONE"),
    "float16": (torch.float16, None, "NONE"),
    "bfloat16": (torch.bfloat16, None, "NONE"),
    "int8 per tensor": (torch.float32, torch.int8, "PER_TENSOR"),
    "int8 per channel": (torch.float32, torch.int8, "PER_CHANNEL"),
    "fp8 per tensor": (torch.float32, torch.float8_e4m3fn, "PER_TENSOR"),
    "fp8 per channel": (torch.float32, torch.float8_e4m3fn, "PER_CHANNEL"),
}


def stored_as(values: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Convert heads [n, K, D] as contract section 8.5 says, with torch's own conversions."""
    if scale is None:
        return values.to(dtype)
    steps = values / (scale if scale.numel() == 1 else scale[:, 0])
    if dtype == torch.int8:
        return steps.round().clamp(-128, 127).to(dtype)
    return steps.clamp(-448, 448).to(dtype)


def expect_caches(before: PagedProblem, after: PagedProblem, rows: list[GqaRow]) -> None:
    """Compare both pools with the old ones into which the oracle's heads are written."""
    for name, part, scale in (
        ("key_cache", "key", before.inputs.k_scale),
        ("value_cache", "value", before.inputs.v_scale),
    ):
        cache = getattr(before.inputs, name)
        expected = cache.clone().flatten(0, 1)
        for row, found in zip(dense_rows(before), rows, strict=True):
            slot = row.slot[row.past :]
            if before.inputs.slot_mapping is not None:
                slot = before.inputs.slot_mapping[row.tokens].long()
            stored = stored_as(getattr(found, part), scale, cache.dtype)
            codes = expected.view(torch.uint8) if cache.element_size() == 1 else expected
            source = stored.view(torch.uint8) if cache.element_size() == 1 else stored
            codes[slot[slot >= 0]] = source[slot >= 0]
        expect_stored(getattr(after.inputs, name).flatten(0, 1), expected)


def expect_parity(problem: PagedProblem) -> None:
    """Compare every eligible implementation with the node, row by row.

    Scores before the softmax are compared where the mask lets them through: outside it the node
    has 0, and ours has -inf.
    """
    is_exact = problem.inputs.key_cache.dtype == torch.float32
    is_exact &= problem.inputs.slot_mapping is None
    rows = list(dense_rows(problem))
    for kernel in eligible(problem.signature):
        own = problem.clone()
        outputs = kernel.run(own.inputs, own.attributes)
        expected = [
            whole_row(problem, row) if is_exact else staged_row(problem, own, row) for row in rows
        ]
        for row, found in zip(rows, expected, strict=True):
            expect_close(outputs.output[row.tokens], found.output)
            if outputs.output_qk is not None and found.scores is not None:
                expect_scores(outputs.output_qk[:, row.tokens], found.scores, problem, row)
        expect_caches(problem, own, expected)


def expect_scores(ours: Tensor, theirs: Tensor, problem: PagedProblem, row: DenseRow) -> None:
    """Compare score matrices [H, n, context]; beyond the context ours holds nothing."""
    masked = 0.0 if problem.attributes.qk_output == 2 else -torch.inf
    key, last = torch.arange(ours.shape[2]), row.past + torch.arange(row.new)[:, None]
    window = problem.attributes.local_window_size
    is_visible = (key <= last) & (key > last - window if window > 0 else key >= 0)
    assert bool((ours == masked).where(~is_visible, True).all())
    inside = is_visible[:, : row.context]
    expect_close(ours[..., : row.context].where(inside, 0.0), theirs.where(inside, 0.0))


def problem_of(seed: int, options: ProblemOptions, *, is_in_order: bool = False) -> PagedProblem:
    problem = random_paged_problem(seed, replace(options, rows=options.rows or ROWS))
    return in_order(problem) if is_in_order else problem


@pytest.mark.spec("8.1", "8.2", "8.3", "8.4", "8.5")
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("rotary", ROTARY)
@pytest.mark.parametrize("has_qk_norm", ON_OFF, ids=["plain", "norm"])
@pytest.mark.parametrize("is_packed", ON_OFF, ids=["separate", "packed"])
def test_the_cross_product_of_features_agrees(
    storage: str, rotary: str, *, has_qk_norm: bool, is_packed: bool
) -> None:
    dtype, cache_dtype, quant_type = STORAGE[storage]
    rotary_dim, is_interleaved = ROTARY[rotary]
    for seed, (has_sink, window, softcap) in enumerate(product(ON_OFF, (0, 5), (0.0, 3.0))):
        options = ProblemOptions(
            dtype=dtype,
            cache_dtype=cache_dtype,
            quant_type=quant_type,
            rotary_dim=rotary_dim,
            rotary_interleaved=is_interleaved,
            has_qk_norm=has_qk_norm,
            is_packed=is_packed,
            has_sink=has_sink,
            window_tokens=window,
            softcap=softcap,
        )
        is_in_order = (seed + is_packed + has_qk_norm) % 2 == 0
        expect_parity(problem_of(seed, options, is_in_order=is_in_order))
