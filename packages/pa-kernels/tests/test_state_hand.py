"""State operators by hand, where each number has a line of its own: heads, rates, wide rows."""

from __future__ import annotations

import math

import pytest
import torch
from pa_kernels import CausalConvInputs, GatedDeltaNetAttributes, GatedDeltaNetInputs
from pa_kernels.state.backend import StateBackend
from pa_kernels.testing import expect_close
from state_problem import EVERYTHING, int32, random_delta
from torch import Tensor

UNSCALED = GatedDeltaNetAttributes(scale=1.0)
HALVES = math.log(0.5)


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


def test_the_bias_is_added_before_the_activation(backend: StateBackend) -> None:
    # 2 + bias is ln 3 in one channel and -2 + bias is -ln 3 in the other, whose sigmoids are 3/4
    # and 1/4.
    x = math.log(3.0)
    inputs = CausalConvInputs(
        input=torch.tensor([[1.0, -1.0]]),
        weight=torch.full((2, 1), 2.0),
        cumulative_sequence_length=int32(0, 1),
        bias=torch.tensor([x - 2.0, 2.0 - x]),
    )

    output = backend.causal_conv(inputs, "silu").output

    expect_close(output, torch.tensor([[0.75 * x, -0.25 * x]]))


@pytest.mark.parametrize("tokens", [1, 5, 70])
def test_a_key_head_serves_neighbouring_value_heads(backend: StateBackend, tokens: int) -> None:
    # Heads 0 and 1 have the key (1, 0), heads 2 and 3 the key (0, 1). Of the values 1, 4, 8 and 5
    # the first token keeps the shares 1, 1/2, 1/4 and 1; nothing changes after it.
    beta = torch.zeros(tokens, 4)
    beta[0] = torch.tensor([1.0, 0.5, 0.25, 1.0])
    inputs = GatedDeltaNetInputs(
        query=torch.tensor([[[2.0, 5.0], [7.0, 3.0]]]).repeat(tokens, 1, 1),
        key=torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).repeat(tokens, 1, 1),
        value=torch.tensor([[[1.0], [4.0], [8.0], [5.0]]]).repeat(tokens, 1, 1),
        cumulative_sequence_length=int32(0, tokens),
        decay=torch.zeros(tokens, 4),
        beta=beta,
    )

    result = backend.gated_delta_net(inputs, UNSCALED)

    # 2 * 1, 2 * 2, 3 * 2 and 3 * 5.
    assert result.output[..., 0].tolist() == [[2.0, 4.0, 6.0, 15.0]] * tokens
    assert state_of(result.final_state)[0, :, 0].tolist() == [
        [1.0, 0.0],
        [2.0, 0.0],
        [0.0, 2.0],
        [0.0, 5.0],
    ]


def test_each_head_has_its_own_rate(backend: StateBackend) -> None:
    # softplus(ln 3) = ln 4 at a rate of 1: the factor is 1/4. softplus(0) = ln 2 at a rate of 3:
    # 1/8. softplus(100) = 100, whose exponential no float32 holds, at a rate of ln 2 / 100: 1/2.
    inputs = GatedDeltaNetInputs(
        query=torch.ones(1, 1, 1),
        key=torch.ones(1, 1, 1),
        value=torch.ones(1, 3, 1),
        cumulative_sequence_length=int32(0, 1),
        decay=torch.tensor([[math.log(3.0) - 0.5, 1.0, 60.0]]),
        beta=torch.zeros(1, 3),
        initial_state=torch.full((1, 3, 1, 1), 16.0),
        a_log=torch.tensor([0.0, math.log(3.0), math.log(math.log(2.0) / 100.0)]),
        dt_bias=torch.tensor([0.5, -1.0, 40.0]),
    )

    result = backend.gated_delta_net(inputs, UNSCALED)

    expect_close(result.output.flatten(), torch.tensor([4.0, 2.0, 8.0]))


@pytest.mark.parametrize("tokens", [3, 20, 64, 70, 150])
def test_a_part_of_each_error_is_corrected(backend: StateBackend, tokens: int) -> None:
    # S = S / 2 + (1 - S / 2) / 2 = S / 4 + 1 / 2, which is 2/3 (1 - 4^-t) after t tokens.
    inputs = GatedDeltaNetInputs(
        query=torch.ones(tokens, 1, 1),
        key=torch.ones(tokens, 1, 1),
        value=torch.ones(tokens, 1, 1),
        cumulative_sequence_length=int32(0, tokens),
        decay=torch.full((tokens, 1), HALVES),
        beta=torch.full((tokens, 1), 0.5),
    )
    expected = 2.0 / 3.0 * (1.0 - 0.25 ** torch.arange(1, tokens + 1))

    result = backend.gated_delta_net(inputs, UNSCALED)

    expect_close(result.output.flatten(), expected)
    expect_close(state_of(result.final_state).flatten(), expected[-1:])


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize(("key_size", "value_size"), [(35, 18), (16, 16), (3, 33)])
def test_states_wider_than_a_vector(
    backend: StateBackend, tokens: int, key_size: int, value_size: int
) -> None:
    # Nothing is corrected: the state halves with every token, and row v reads as the sum over k of
    # k + 100 v.
    key_index, value_index = torch.arange(key_size), torch.arange(value_size)
    state = (key_index + 100.0 * value_index[:, None])[None, None]
    shares = 0.5 ** torch.arange(1, tokens + 1)
    inputs = GatedDeltaNetInputs(
        query=torch.ones(tokens, 1, key_size),
        key=torch.ones(tokens, 1, key_size),
        value=torch.ones(tokens, 1, value_size),
        cumulative_sequence_length=int32(0, tokens),
        decay=torch.full((tokens, 1), HALVES),
        beta=torch.zeros(tokens, 1),
        initial_state=state,
    )

    result = backend.gated_delta_net(inputs, UNSCALED)

    sums = key_size * (key_size - 1) / 2 + 100.0 * key_size * value_index
    expect_close(result.output[:, 0], shares[:, None] * sums)
    expect_close(state_of(result.final_state), state * shares[-1])


def test_queries_keys_and_values_have_strides_of_their_own(backend: StateBackend) -> None:
    inputs = random_delta(1)
    strided = GatedDeltaNetInputs(
        query=in_longer_rows(inputs.query, 3),
        key=in_longer_rows(inputs.key, 9),
        value=in_longer_rows(inputs.value, 5),
        cumulative_sequence_length=inputs.cumulative_sequence_length,
        decay=inputs.decay,
        beta=inputs.beta,
        initial_state=inputs.initial_state,
    )

    result, expected = (backend.gated_delta_net(each, UNSCALED) for each in (strided, inputs))

    assert torch.equal(result.output, expected.output)
    assert torch.equal(state_of(result.final_state), state_of(expected.final_state))


def in_longer_rows(tensor: Tensor, more: int) -> Tensor:
    """Return the same numbers with `more` NaN behind each token's."""
    width = tensor[0].numel()
    rows = tensor.new_full((tensor.shape[0], width + more), torch.nan)
    rows[:, :width] = tensor.flatten(1)
    return rows[:, :width].view(tensor.shape)


def state_of(state: Tensor | None) -> Tensor:
    assert state is not None
    return state
