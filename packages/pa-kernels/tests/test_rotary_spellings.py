"""Rotation inside the operator against rotation in the graph before it.

Method: turn queries and keys outside by plain torch and call without do_rotary; the caches and the
output must be those of the call that turns inside.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    same_caches,
    with_inputs,
)
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

ROWS = ((33, 3), (15, 1), (0, 20), (16, 1))
SEPARATE = ProblemOptions(rows=ROWS, head_size=48)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CASES = {
    f"{name}-{kind}-{layout}": replace(options, dtype=dtype, rotary_interleaved=interleaved)
    for name, dtype in DTYPES.items()
    for layout, interleaved in (("halves", False), ("interleaved", True))
    for kind, options in {
        "whole": replace(SEPARATE, rotary_dim=48),
        "partial": replace(SEPARATE, rotary_dim=16),
        "offset": replace(SEPARATE, rotary_dim=16, rotary_offset=8),
        "last": replace(SEPARATE, rotary_dim=8, rotary_offset=40),
        "positions": replace(SEPARATE, rotary_dim=16, rotary_offset=16, has_query_positions=True),
        "latent": replace(LATENT, rows=ROWS),
        "latent-wide": replace(
            LATENT, rows=ROWS, head_size=576, v_head_size=512, rotary_dim=64, rotary_offset=512
        ),
        "latent-positions": replace(LATENT, rows=ROWS, has_query_positions=True),
    }.items()
}


def positions(problem: PagedProblem) -> Tensor:
    """Position of every token: [T]."""
    if problem.inputs.query_positions is not None:
        return problem.inputs.query_positions.long()
    assert problem.options.rows is not None
    return torch.cat([torch.arange(past, past + new) for past, new in problem.options.rows])


def turned(problem: PagedProblem, rows: Tensor) -> Tensor:
    """Rotate every head of [T, heads * D] in float32, as a producer of the rows would."""
    options, where = problem.options, positions(problem)
    assert problem.inputs.cos_cache is not None
    assert problem.inputs.sin_cache is not None
    cosine = problem.inputs.cos_cache[where].float()[:, None]
    sine = problem.inputs.sin_cache[where].float()[:, None]
    heads = rows.float().reshape(len(rows), -1, options.head_size).clone()
    first, half = options.rotary_offset, options.rotary_dim // 2
    channels = torch.arange(first, first + options.rotary_dim)
    if options.rotary_interleaved:
        left, right = channels[0::2], channels[1::2]
    else:
        left, right = channels[:half], channels[half:]
    x, y = heads[..., left], heads[..., right]
    heads[..., left], heads[..., right] = x * cosine - y * sine, y * cosine + x * sine
    result: Tensor = heads.flatten(1).to(rows.dtype)
    return result


def both_spellings(options: ProblemOptions) -> tuple[PagedProblem, PagedProblem]:
    """Return a problem that turns inside the operator, and the one whose rows come turned."""
    inside = random_paged_problem(1, options)
    assert inside.inputs.key is not None
    outside = with_inputs(
        replace(inside.clone(), attributes=replace(inside.attributes, do_rotary=0)),
        query=turned(inside, inside.inputs.query),
        key=turned(inside, inside.inputs.key),
        cos_cache=None,
        sin_cache=None,
    )
    assert not torch.equal(bits(outside.inputs.key), bits(inside.inputs.key))
    return inside, outside


@each_eligible(CASES, oracle=())
def test_rotation_in_the_operator_is_rotation_in_the_graph(
    options: ProblemOptions, kernel: Kernel
) -> None:
    inside, outside = both_spellings(options)

    outputs = [kernel.output(each) for each in (inside, outside)]

    # Queries that come turned are rounded on their way in, except in float32.
    expect_close(outputs[0], outputs[1].double())
    expect_close(inside.inputs.key_cache, outside.inputs.key_cache.double())
    assert torch.equal(bits(inside.inputs.value_cache), bits(outside.inputs.value_cache))


FLOAT32 = {name: options for name, options in CASES.items() if name.startswith("float32")}


@each_eligible(FLOAT32)
def test_rotation_in_the_operator_has_the_bits_of_rotation_in_the_graph(
    options: ProblemOptions, kernel: Kernel
) -> None:
    inside, outside = both_spellings(options)

    outputs = [kernel.output(each) for each in (inside, outside)]

    assert torch.equal(bits(outputs[0]), bits(outputs[1]))
    assert same_caches(inside, outside)
