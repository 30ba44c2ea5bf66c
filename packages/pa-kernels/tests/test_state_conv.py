"""The packed causal convolution: by hand, in pieces, in pools, and row by row."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pa_kernels import CausalConvInputs, StatePool, varlen_causal_conv
from pa_kernels.state.backend import StateBackend
from pa_kernels.testing import expect_close
from state_problem import (
    DTYPES,
    EVERYTHING,
    ConvOptions,
    boundaries_of,
    conv_tokens,
    expect_bits,
    in_pool,
    int32,
    random_conv,
)
from torch import Tensor


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


def state_of(inputs: CausalConvInputs) -> Tensor:
    assert inputs.initial_state is not None
    return inputs.initial_state


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_channels_by_hand(backend: StateBackend, dtype: torch.dtype) -> None:
    inputs = CausalConvInputs(
        input=torch.tensor([[6.0, 1.0], [7.0, 0.0]], dtype=dtype),
        weight=torch.tensor([[[1.0, 2.0, 3.0]], [[0.5, 0.0, -1.0]]], dtype=dtype),
        cumulative_sequence_length=int32(0, 2),
        bias=torch.tensor([10.0, 0.0], dtype=dtype),
        initial_state=torch.tensor([[[4.0, 5.0], [2.0, 8.0]]], dtype=dtype),
    )

    result = backend.causal_conv(inputs, "none")

    # 10 + 4 + 2*5 + 3*6 and 10 + 5 + 2*6 + 3*7; 0.5*2 - 1 and 0.5*8 - 0.
    assert result.output.tolist() == [[42.0, 0.0], [48.0, 4.0]]
    assert _final(result.final_state).tolist() == [[[6.0, 7.0], [1.0, 0.0]]]
    assert (result.output.dtype, _final(result.final_state).dtype) == (dtype, dtype)


@pytest.mark.parametrize("activation", ["silu", "swish"])
def test_silu_by_hand(backend: StateBackend, activation: str) -> None:
    # The sigmoid of ln 3 is 3/4.
    x = math.log(3.0)
    inputs = CausalConvInputs(
        input=torch.tensor([[x, -x, 0.0, 100.0, -100.0]]),
        weight=torch.ones(5, 1),
        cumulative_sequence_length=int32(0, 1),
    )

    output = backend.causal_conv(inputs, activation).output

    expect_close(output, torch.tensor([[0.75 * x, -0.25 * x, 0.0, 100.0, 0.0]]))


def test_sequences_start_from_zeros_without_a_state(backend: StateBackend) -> None:
    inputs = random_conv(1, ConvOptions(has_state=False))
    zeros = torch.zeros(5, 70, 3)

    bare, explicit = (
        backend.causal_conv(each, "silu") for each in (inputs, replace(inputs, initial_state=zeros))
    )

    assert torch.equal(bare.output, explicit.output)
    assert torch.equal(_final(bare.final_state), _final(explicit.final_state))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cuts", [(1, 2, 3), (32, 33), (64,), (5, 5, 40, 97), tuple(range(1, 100))])
def test_any_division_of_a_sequence_gives_the_same_bits(
    backend: StateBackend, cuts: tuple[int, ...], dtype: torch.dtype
) -> None:
    inputs = random_conv(2, ConvOptions(tokens=(100,), dtype=dtype))
    whole = backend.causal_conv(inputs, "silu")

    state, outputs = inputs.initial_state, []
    for begin, end in zip((0, *cuts), (*cuts, 100), strict=True):
        part = backend.causal_conv(conv_tokens(inputs, slice(begin, end), state), "silu")
        outputs.append(part.output)
        state = part.final_state

    expect_bits(backend, torch.cat(outputs), whole.output)
    assert torch.equal(_final(state), _final(whole.final_state))


@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("tokens", [0, 1, 2, 5])
def test_a_state_is_the_last_inputs_also_of_short_sequences(
    backend: StateBackend, taps: int, tokens: int
) -> None:
    inputs = random_conv(3, ConvOptions(tokens=(tokens,), channels=19, taps=taps))
    history = torch.cat((state_of(inputs)[0], inputs.input.T), dim=1)

    result = backend.causal_conv(inputs, "none")

    assert torch.equal(_final(result.final_state)[0], history[:, tokens:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pool_gives_what_plain_states_give_and_keeps_other_rows(
    backend: StateBackend, dtype: torch.dtype
) -> None:
    inputs = random_conv(4, ConvOptions(dtype=dtype))
    pool = in_pool(state_of(inputs), 6, read=(3, 9, 0, 11, 5), write=(9, 3, 6, 1, -1))
    before = pool.states.clone()

    plain = backend.causal_conv(inputs, "silu")
    pooled = backend.causal_conv(replace(inputs, initial_state=None, pool=pool), "silu")

    assert pooled.final_state is None
    assert torch.equal(pooled.output, plain.output)
    rows = pool.states.flatten(0, 1)
    expected = before.flatten(0, 1)
    expected[[9, 3, 6, 1]] = _final(plain.final_state)[:4]
    assert torch.equal(rows.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_every_state_is_read_before_any_is_written(backend: StateBackend) -> None:
    inputs = random_conv(5, ConvOptions(tokens=(2, 1, 9, 3)))
    # The first three write in a circle where they read; the last one reads what it then writes.
    pool = in_pool(state_of(inputs), 3, read=(0, 1, 2, 3), write=(1, 2, 0, 3))

    plain = backend.causal_conv(inputs, "none")
    pooled = backend.causal_conv(replace(inputs, initial_state=None, pool=pool), "none")

    assert torch.equal(pooled.output, plain.output)
    assert torch.equal(pool.states.flatten(0, 1)[[1, 2, 0, 3]], _final(plain.final_state))


def test_a_row_may_be_read_by_several(backend: StateBackend) -> None:
    inputs = random_conv(6, ConvOptions(tokens=(2, 2)))
    first = state_of(inputs)[:1]
    pool = StatePool(in_pool(first, 2, (1,), (1,)).states, int32(1, 1), int32(1, 0))

    plain = backend.causal_conv(replace(inputs, initial_state=first.repeat(2, 1, 1)), "none")
    pooled = backend.causal_conv(replace(inputs, initial_state=None, pool=pool), "none")

    assert torch.equal(pooled.output, plain.output)
    assert torch.equal(pool.states.flatten(0, 1)[[1, 0]], _final(plain.final_state))


def test_a_row_of_no_place_starts_from_zeros_and_is_not_kept(backend: StateBackend) -> None:
    inputs = random_conv(7, ConvOptions(tokens=(2, 3), has_state=False))
    states = torch.full((1, 2, 70, 3), torch.nan)
    pool = StatePool(states, int32(-1, -1), int32(1, -1))

    plain = backend.causal_conv(inputs, "none")
    pooled = backend.causal_conv(replace(inputs, pool=pool), "none")

    assert torch.equal(pooled.output, plain.output)
    assert torch.equal(states[0, 1], _final(plain.final_state)[0])
    assert bool(states[0, 0].isnan().all())


def test_rows_without_tokens_carry_their_state_on(backend: StateBackend) -> None:
    inputs = random_conv(8, ConvOptions(tokens=(0, 0, 0)))
    read, write = (0, 2, 1), (3, 2, -1)
    pool = in_pool(state_of(inputs), 2, read, write)

    plain = backend.causal_conv(inputs, "silu")
    backend.causal_conv(replace(inputs, initial_state=None, pool=pool), "silu")

    assert plain.output.shape == (0, 70)
    assert torch.equal(_final(plain.final_state), state_of(inputs))
    assert torch.equal(pool.states.flatten(0, 1)[[3, 2, 1]], state_of(inputs))


def test_a_large_batch_gives_each_row_what_it_has_alone(backend: StateBackend) -> None:
    tokens = tuple((1, 1, 0, 3, 1)[row % 5] for row in range(257))
    inputs = random_conv(9, ConvOptions(tokens=tokens, channels=20))
    ends = boundaries_of(tokens).tolist()

    whole = backend.causal_conv(inputs, "silu")

    for row in (0, 1, 2, 3, 128, 255, 256):
        packed = slice(ends[row], ends[row + 1])
        own = conv_tokens(inputs, packed, state_of(inputs)[row : row + 1])
        alone = backend.causal_conv(own, "silu")
        assert torch.equal(alone.output, whole.output[packed])
        assert torch.equal(_final(alone.final_state)[0], _final(whole.final_state)[row])


@pytest.mark.parametrize("place", ["input", "state"])
def test_nan_stays_in_its_row_and_channel(backend: StateBackend, place: str) -> None:
    inputs = random_conv(10)
    twin = replace(inputs, input=inputs.input.clone(), initial_state=state_of(inputs).clone())
    # The row of 40 tokens has those from 4 to 43.
    if place == "input":
        twin.input[10, 5] = torch.nan
    else:
        state_of(twin)[3, 5, 2] = torch.nan

    clean, dirty = (backend.causal_conv(each, "silu") for each in (inputs, twin))

    is_dirty = dirty.output.isnan()
    first = 10 if place == "input" else 4
    last = 13 if place == "input" else 6
    assert is_dirty.nonzero().tolist() == [[t, 5] for t in range(first, last + 1)]
    assert torch.equal(dirty.output[~is_dirty], clean.output[~is_dirty])
    assert torch.equal(_final(dirty.final_state), _final(clean.final_state))


def test_rows_of_the_input_may_be_strided(backend: StateBackend) -> None:
    inputs = random_conv(11)
    wide = torch.full((46, 100), torch.nan)
    wide[:, 7:77] = inputs.input

    strided = backend.causal_conv(replace(inputs, input=wide[:, 7:77]), "none")

    assert torch.equal(strided.output, backend.causal_conv(inputs, "none").output)


def test_the_function_takes_the_compiled_backend_on_a_host() -> None:
    inputs = random_conv(12)

    results = [varlen_causal_conv(inputs, "silu", name) for name in (None, "cpu", "reference")]

    assert torch.equal(results[0].output, results[1].output)
    expect_close(results[0].output, results[2].output)


def _final(state: Tensor | None) -> Tensor:
    assert state is not None
    return state
