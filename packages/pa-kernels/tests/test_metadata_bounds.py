"""Bounds in attention_metadata size launches and score matrices; they are never a mask.

Contract section 7.2: with no bounds, tight, loose or unknown ones, two or three of them, a call
gives the same bits; only output_qk's width follows. Too small a bound is the producer's fault: its
result is open, but nothing outside the tensors is touched.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    in_every_type,
    int32,
    same_caches,
    with_inputs,
)
from pa_kernels import paged_attention
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

DECODE = ((33, 1), (70, 1), (0, 1), (15, 1))
PREFILL = ((33, 5), (0, 40), (16, 1), (20, 0))
CASES = {
    f"{shape}-{name}": options
    for shape, rows in (("decode", DECODE), ("prefill", PREFILL))
    for name, options in (
        in_every_type(ProblemOptions(rows=rows, rotary_dim=16))
        | {
            "window-sink": ProblemOptions(rows=rows, window_tokens=20, has_sink=True),
            "latent": replace(LATENT, rows=rows),
        }
    ).items()
}
ORACLE = ("decode-float32", "prefill-float32-int8-channel", "prefill-latent")


def longest(rows: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """Return the most new tokens of a row, and the longest context."""
    return max(new for _, new in rows), max(past + new for past, new in rows)


def bounds(rows: tuple[tuple[int, int], ...] | None) -> dict[str, Tensor | None]:
    """Return metadata that is right about these rows, in every spelling."""
    assert rows is not None
    new, context = longest(rows)
    loose = 10**6
    return {
        "absent": None,
        "tight": int32(new, context),
        "tight, lower bound": int32(new, context, context),
        "tight, lower bound unknown": int32(new, context, 0),
        "loose": int32(loose, loose),
        "loose, lower bound": int32(loose, loose, context - 1),
        "as wide as int32": int32(2**31 - 1, 2**31 - 1, 1),
        "unknown": int32(0, 0),
        "unknown, lower bound": int32(0, 0, context),
    }


@each_eligible(CASES, ORACLE)
def test_bounds_that_hold_change_no_bit(options: ProblemOptions, kernel: Kernel) -> None:
    problem = random_paged_problem(1, options)
    outputs, after = {}, {}
    for name, metadata in bounds(options.rows).items():
        own = with_inputs(problem.clone(), attention_metadata=metadata)
        outputs[name], after[name] = kernel.output(own), own

    for name, output in outputs.items():
        assert torch.equal(bits(output), bits(outputs["absent"])), name
        assert same_caches(after[name], after["absent"]), name


@each_eligible(
    {
        f"{name}-{selected}": ProblemOptions(rows=rows, qk_output=selected)
        for name, rows in (("decode", DECODE), ("prefill", PREFILL))
        for selected in (1, 2)
    }
)
def test_bounds_set_the_width_of_the_scores_and_no_number_in_them(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(2, options)
    capacity = problem.inputs.block_table.shape[1] * options.block_size
    assert options.rows is not None
    _, context = longest(options.rows)
    assert context < capacity
    whole = kernel.run(problem.clone().inputs, options.attributes).output_qk
    assert whole is not None

    for name, metadata in bounds(options.rows).items():
        own = with_inputs(problem.clone(), attention_metadata=metadata)
        scores = kernel.run(own.inputs, options.attributes).output_qk

        assert scores is not None
        width = context if name.startswith("tight") else capacity
        assert scores.shape == (options.num_heads, own.inputs.query.shape[0], width), name
        assert torch.equal(bits(scores), bits(whole[..., :width])), name


def too_small() -> dict[str, Tensor]:
    return {
        "one": int32(1, 1),
        "one, lower bound": int32(1, 1, 1),
        "half": int32(1, 20, 20),
    }


@pytest.mark.parametrize("name", too_small())
@each_eligible(CASES, ORACLE)
def test_bounds_that_are_too_small_touch_nothing_outside(
    options: ProblemOptions, kernel: Kernel, name: str
) -> None:
    # Here bounds size nothing but scores, so even the result stays; a margin of the caches that a
    # wrong address would meet holds NaN before and after.
    problem = random_paged_problem(3, options)
    expected = kernel.output(problem.clone())
    guarded, margins = between_margins(problem)

    own = with_inputs(guarded, attention_metadata=too_small()[name])
    output = kernel.output(own)

    assert torch.equal(bits(output), bits(expected))
    assert all(bool((margin == 0xFF).all()) for margin in margins)


@pytest.mark.parametrize("metadata", [int32(1, 1), int32(1, 20, 20)])
@pytest.mark.parametrize("selected", [1, 2])
def test_scores_under_too_small_a_bound_are_cut(metadata: Tensor, selected: int) -> None:
    options = ProblemOptions(rows=PREFILL, qk_output=selected)
    problem = random_paged_problem(4, options)
    whole = paged_attention(problem.clone().inputs, options.attributes)
    cut = with_inputs(problem.clone(), attention_metadata=metadata)

    result = paged_attention(cut.inputs, options.attributes)

    assert whole.output_qk is not None
    assert result.output_qk is not None
    width = int(metadata[1])
    assert result.output_qk.shape[2] == width
    assert torch.equal(bits(result.output_qk), bits(whole.output_qk[..., :width]))
    expect_close(result.output, whole.output)


def between_margins(problem: PagedProblem) -> tuple[PagedProblem, list[Tensor]]:
    """Return the problem with caches inside larger memory, and the bytes around them."""
    caches, margins = {}, []
    for name in ("key_cache", "value_cache"):
        cache = getattr(problem.inputs, name)
        if cache is None:
            continue
        block = cache[0].numel() * cache.element_size()
        memory = torch.full((cache.numel() * cache.element_size() + 2 * block,), 0xFF)
        memory = memory.to(torch.uint8)
        inner = memory[block:-block].view(cache.dtype).view(cache.shape)
        inner.copy_(cache)
        caches[name] = inner
        margins += [memory[:block], memory[-block:]]
    return with_inputs(problem, **caches), margins
