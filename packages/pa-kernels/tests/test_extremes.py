"""Numbers at the ends: logits beyond the exponential's range, sinks far away, values that are none.

Method: calls written down by hand, on every backend and unit in every element type.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
import torch
from every_backend import KERNELS, Kernel, int32
from hand_call import HandCall, Tokens, by_hand, hand_call
from pa_kernels import prepare, signature_of
from pa_kernels.reference.quantize import to_cache
from pa_kernels.testing import ProblemOptions, random_paged_problem


def far_apart(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[16]]], [[[16]], [[-16]], [[16]]], [[[4]], [[0, 4]], [[0, 0, 8]]])
    return hand_call(dtype, tokens)


@by_hand(far_apart)
def test_logits_far_above_the_range_of_an_exponential(call: HandCall, kernel: Kernel) -> None:
    # Logits 256, -256, 256: e^256 has no float32. Halves of the first and the last.
    call.expect(kernel, [[2, 0, 4]])


def far_below(dtype: torch.dtype) -> HandCall:
    return hand_call(dtype, Tokens([[[16]]], [[[-16]], [[-16]]], [[[4]], [[0, 4]]]))


@by_hand(far_below)
def test_logits_far_below_the_range_of_an_exponential(call: HandCall, kernel: Kernel) -> None:
    # e^-256 is 0 in float32; two equal logits are halves all the same.
    call.expect(kernel, [[2, 2]])


def with_sinks(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[0]] * 4], [[[0]], [[0]]], [[[4]], [[0, 4]]])
    sinks = torch.tensor([256.0, 90.0, -256.0, -inf]).to(dtype)
    return hand_call(dtype, tokens, head_sink=sinks)


@by_hand(with_sinks)
def test_a_sink_far_away_takes_all_or_nothing(call: HandCall, kernel: Kernel) -> None:
    # Beside a logit of 256 or 90 (2^130, more than float32 has) two zeros weigh nothing; beside
    # -256 or -inf they are halves.
    call.expect(kernel, [[], [], [2, 2], [2, 2]])


def spoiled(dtype: torch.dtype, number: float) -> HandCall:
    values: list[list[list[float]]] = [[[4, 8]], [[0, number, 4]], [[8]]]
    return hand_call(dtype, Tokens([[[0]], [[0]]], [[[0]]] * 3, values))


def spoiled_by_nan(dtype: torch.dtype) -> HandCall:
    return spoiled(dtype, nan)


def spoiled_by_infinity(dtype: torch.dtype) -> HandCall:
    return spoiled(dtype, -inf)


@by_hand(spoiled_by_nan)
def test_a_value_that_is_no_number_shows_in_its_own_channel(call: HandCall, kernel: Kernel) -> None:
    # Halves, then thirds; channel 1 holds the NaN of position 1, which both see.
    output = call.run(kernel).output

    assert output[:, 1].isnan().all()
    assert output[0, [0, 2]].tolist() == [2, 2]
    assert output[1, [0, 2]].double().tolist() == pytest.approx([4, 4 / 3], rel=1e-2)


@by_hand(spoiled_by_infinity)
def test_an_infinite_value_shows_in_its_own_channel(call: HandCall, kernel: Kernel) -> None:
    output = call.run(kernel).output

    assert output[:, 1].tolist() == [-inf, -inf]
    assert output[0, [0, 2]].tolist() == [2, 2]


def spoiled_later(dtype: torch.dtype) -> HandCall:
    values: list[list[list[float]]] = [[[4]], [[0, 4]], [[nan] * 8]]
    return hand_call(dtype, Tokens([[[0]], [[0]]], [[[0]], [[0]], [[nan] * 8]], values))


@by_hand(spoiled_later)
def test_what_a_query_does_not_see_does_not_reach_it(call: HandCall, kernel: Kernel) -> None:
    output = call.run(kernel).output

    assert output[0, :2].tolist() == [2, 2]
    assert output[1].isnan().all()


@pytest.mark.spec("V65")
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_row_without_tokens_needs_no_rows_of_the_rotary_table(kernel: Kernel) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((20, 3), (40, 0)), rotary_dim=16))
    assert problem.inputs.cos_cache is not None
    assert problem.inputs.sin_cache is not None
    tables = (problem.inputs.cos_cache[:23], problem.inputs.sin_cache[:23])
    inputs = replace(problem.inputs, cos_cache=tables[0], sin_cache=tables[1])

    output = kernel.run(inputs, problem.attributes).output

    assert output.isfinite().all()


def test_scores_are_never_wider_than_the_table() -> None:
    options = ProblemOptions(rows=((3, 2),), qk_output=1)
    problem = random_paged_problem(1, options)
    inputs = replace(problem.inputs, attention_metadata=int32(10**6, 10**6))

    scores = prepare(signature_of(inputs, problem.attributes)).run(inputs).output_qk

    assert scores is not None
    assert scores.shape[2] == inputs.block_table.shape[1] * options.block_size


def test_the_oracle_stores_what_is_no_number_as_its_cache_can() -> None:
    values = torch.tensor([[[nan, inf, -inf, 1.0]]])
    scale = torch.ones(1)

    assert to_cache(values, scale, torch.int8).tolist() == [[[0, 127, -128, 1]]]
    stored = to_cache(values, scale, torch.float8_e4m3fn).float().flatten()
    assert stored[0].isnan()
    assert stored[1:].tolist() == [448, -448, 1]
