"""Blocks that a window has left are as good as gone: whatever stands there, the bits are the same.

Contract section 8.8: the walk begins at the first block that some query of the row still sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    fill,
    in_every_type,
    with_entries,
    with_inputs,
)
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem

ROWS = ((70, 1), (45, 3), (100, 20), (5, 2), (16, 1), (127, 1))
WINDOWED = ProblemOptions(rows=ROWS, window_tokens=20)
CASES = (
    in_every_type(WINDOWED)
    | {f"window-{w}": replace(WINDOWED, window_tokens=w) for w in (1, 15, 16, 17, 33, 64)}
    | {
        "sink-softcap-norm-rope": replace(
            WINDOWED, has_sink=True, softcap=5.0, has_qk_norm=True, rotary_dim=16
        ),
        "wide-blocks": replace(WINDOWED, block_size=64, window_tokens=30),
        "latent": replace(LATENT, rows=ROWS, window_tokens=20),
        "latent-int8": replace(
            LATENT,
            rows=ROWS,
            window_tokens=17,
            cache_dtype=torch.int8,
            quant_type="PER_CHANNEL",
        ),
    }
)
ORACLE = ("float32", "float32-int8-channel", "window-1", "sink-softcap-norm-rope", "latent-int8")


def dead_entries(problem: PagedProblem) -> Iterator[tuple[int, int]]:
    """Yield (row, column) of every block that lies before the window of the row's oldest query."""
    options = problem.options
    for row, past in enumerate(problem.inputs.past_seqlens.tolist()):
        oldest = max(0, past - options.window_tokens + 1)
        for column in range(oldest // options.block_size):
            yield row, column


def whole_problem(options: ProblemOptions) -> PagedProblem:
    """Draw a problem with every block mapped and full, none of them shared."""
    problem = random_paged_problem(1, options)
    fill(problem)
    rows, columns = problem.inputs.block_table.shape
    shape = (rows * columns, *problem.inputs.key_cache.shape[1:])
    order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(2)).int()
    caches = {
        name: torch.zeros(shape, dtype=cache.dtype)
        for name in ("key_cache", "value_cache")
        if (cache := getattr(problem.inputs, name)) is not None
    }
    whole = with_inputs(problem, block_table=order.reshape(rows, columns), **caches)
    fill(whole)
    return whole


@pytest.mark.parametrize("outside", [-1, 10**9])
@each_eligible(CASES, ORACLE)
def test_ids_of_pruned_blocks_are_never_followed(
    options: ProblemOptions, kernel: Kernel, outside: int
) -> None:
    whole = whole_problem(options)
    pruned = with_entries(whole.clone(), outside, *dead_entries(whole))
    assert not torch.equal(pruned.inputs.block_table, whole.inputs.block_table)

    outputs = [kernel.output(each) for each in (whole, pruned)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))


@each_eligible(CASES, ORACLE)
def test_contents_of_pruned_blocks_and_of_slots_before_the_window_are_never_seen(
    options: ProblemOptions, kernel: Kernel
) -> None:
    whole = whole_problem(options)
    spoiled = whole.clone()
    for row, past in enumerate(whole.inputs.past_seqlens.tolist()):
        for position in range(max(0, past - options.window_tokens + 1)):
            column, offset = divmod(position, options.block_size)
            block_id = int(whole.inputs.block_table[row, column])
            for cache in (spoiled.inputs.key_cache, spoiled.inputs.value_cache):
                if cache is not None:
                    # A NaN of every float type, and -1 of int8.
                    cache.view(torch.uint8)[block_id, offset] = 0xFF

    outputs = [kernel.output(each) for each in (whole, spoiled)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert outputs[0].isfinite().all()


@each_eligible(CASES, ORACLE)
def test_the_last_position_of_the_window_is_seen(options: ProblemOptions, kernel: Kernel) -> None:
    # The first row decodes position 70: W - 1 keys before it count, and no further one.
    whole = whole_problem(options)
    first = 70 - options.window_tokens + 1
    found = []
    for position in (first - 1, first):
        changed = whole.clone()
        column, offset = divmod(position, options.block_size)
        block_id = int(whole.inputs.block_table[0, column])
        for cache in (changed.inputs.key_cache, changed.inputs.value_cache):
            if cache is not None:
                cache.view(torch.uint8)[block_id, offset] ^= 1 << 6
        expected = kernel.output(whole.clone())[0]
        found.append(torch.equal(bits(kernel.output(changed)[0]), bits(expected)))

    # With a window of 1 the only key is the token's own, stored by the call itself.
    assert found == [True, options.window_tokens == 1]
