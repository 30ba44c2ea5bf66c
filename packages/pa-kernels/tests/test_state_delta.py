"""The packed gated delta rule: by hand, in pieces, in pools, and row by row."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pa_kernels import (
    DELTA_CHUNK_TOKENS,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StatePool,
    _cpu,
    gated_delta_net,
)
from pa_kernels.state.backend import StateBackend
from pa_kernels.state.reference_delta import run_gated_delta_net
from pa_kernels.testing import expect_close
from state_problem import (
    DTYPES,
    EVERYTHING,
    DeltaOptions,
    boundaries_of,
    delta_tokens,
    expect_bits,
    in_pool,
    int32,
    random_delta,
)
from torch import Tensor

PLAIN = GatedDeltaNetAttributes()
NORMED = GatedDeltaNetAttributes(qk_l2norm=True)
UNSCALED = GatedDeltaNetAttributes(scale=1.0)


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


def two_tokens(dtype: torch.dtype = torch.float32) -> GatedDeltaNetInputs:
    return GatedDeltaNetInputs(
        query=torch.tensor([[[1.0, 1.0]], [[0.0, 2.0]]], dtype=dtype),
        key=torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]], dtype=dtype),
        value=torch.tensor([[[5.0]], [[2.0]]], dtype=dtype),
        cumulative_sequence_length=int32(0, 2),
        decay=torch.tensor([[math.log(0.5)], [0.0]]),
        beta=torch.tensor([[0.5], [1.0]], dtype=dtype),
        initial_state=torch.tensor([[[[2.0, 4.0]]]]),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_tokens_by_hand(backend: StateBackend, dtype: torch.dtype) -> None:
    # The state halves to (1, 2); key (1, 0) reads 1 where the value is 5, half the error is 2:
    # (3, 2), read by (1, 1). Then key (0, 1) reads 2, which is the value; (0, 2) reads 4.
    result = backend.gated_delta_net(two_tokens(dtype), UNSCALED)

    assert result.output.flatten().tolist() == [5.0, 4.0]
    assert _final(result.final_state).tolist() == [[[[3.0, 2.0]]]]
    assert result.output.dtype == dtype


def test_the_default_scale_is_that_of_the_key_size(backend: StateBackend) -> None:
    output = backend.gated_delta_net(two_tokens(), PLAIN).output

    expect_close(output.flatten(), torch.tensor([5.0, 4.0]) / math.sqrt(2.0))


def test_decay_from_rates_by_hand(backend: StateBackend) -> None:
    # softplus(0) = ln 2 and the rate is exp(0) = 1: the factor is a half. The second token's
    # softplus(-60) is nothing: the factor is 1.
    inputs = replace(
        two_tokens(),
        decay=torch.tensor([[0.25], [-59.75]]),
        a_log=torch.tensor([0.0]),
        dt_bias=torch.tensor([-0.25]),
    )

    result = backend.gated_delta_net(inputs, UNSCALED)

    expect_close(result.output.flatten(), torch.tensor([5.0, 4.0]))
    expect_close(_final(result.final_state).flatten(), torch.tensor([3.0, 2.0]))


def test_normalisation_by_hand(backend: StateBackend) -> None:
    inputs = replace(
        two_tokens(),
        query=torch.tensor([[[3.0, 4.0]], [[0.0, 9.0]]]),
        key=torch.tensor([[[7.0, 0.0]], [[0.0, 0.5]]]),
    )
    attributes = GatedDeltaNetAttributes(scale=1.0, qk_l2norm=True, l2norm_epsilon=0.0)

    # As above with queries (0.6, 0.8) and (0, 1): 3 * 0.6 + 2 * 0.8, then 2.
    output = backend.gated_delta_net(inputs, attributes).output

    expect_close(output.flatten(), torch.tensor([3.4, 2.0]))


@pytest.mark.parametrize("tokens", [5, 63, 64, 65, 70, 200])
def test_a_long_sequence_by_hand(backend: StateBackend, tokens: int) -> None:
    # Keys e0, e1, e0, ... replace one number of the state at a time, and both halve before that.
    index = torch.arange(tokens)
    value = (index + 1.0).view(-1, 1, 1)
    inputs = GatedDeltaNetInputs(
        query=torch.ones(tokens, 1, 2),
        key=torch.nn.functional.one_hot(index % 2, 2).float()[:, None],
        value=value,
        cumulative_sequence_length=int32(0, tokens),
        decay=torch.full((tokens, 1), math.log(0.5)),
        beta=torch.ones(tokens, 1),
    )

    output = backend.gated_delta_net(inputs, UNSCALED).output

    expect_close(output.flatten(), value.flatten() + 0.5 * index)


def test_the_chunk_is_that_of_the_compiled_rule() -> None:
    assert _cpu.DELTA_CHUNK_TOKENS == DELTA_CHUNK_TOKENS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cuts", [(64,), (128,), (64, 128), (128, 192), (64, 64, 192)])
def test_a_division_at_whole_chunks_gives_the_same_bits(
    backend: StateBackend, cuts: tuple[int, ...], dtype: torch.dtype
) -> None:
    inputs = random_delta(1, DeltaOptions(tokens=(201,), dtype=dtype))
    whole = backend.gated_delta_net(inputs, NORMED)

    output, state = in_pieces(backend, inputs, cuts)

    expect_bits(backend, output, whole.output)
    expect_bits(backend, state, _final(whole.final_state))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4), (63, 65), (5, 37, 150), (100,), (197,), (33, 34)])
def test_any_division_gives_the_same_values(
    backend: StateBackend, cuts: tuple[int, ...], dtype: torch.dtype
) -> None:
    inputs = random_delta(2, DeltaOptions(tokens=(201,), dtype=dtype))
    whole = backend.gated_delta_net(inputs, NORMED)

    output, state = in_pieces(backend, inputs, cuts)

    expect_close(output, whole.output)
    expect_close(state, _final(whole.final_state))


def in_pieces(
    backend: StateBackend, inputs: GatedDeltaNetInputs, cuts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    total = inputs.value.shape[0]
    state, outputs = inputs.initial_state, []
    for begin, end in zip((0, *cuts), (*cuts, total), strict=True):
        part = backend.gated_delta_net(delta_tokens(inputs, slice(begin, end), state), NORMED)
        outputs.append(part.output)
        state = part.final_state
    return torch.cat(outputs), _final(state)


def test_sequences_start_from_zeros_without_a_state(backend: StateBackend) -> None:
    inputs = random_delta(3, DeltaOptions(has_state=False))
    zeros = torch.zeros(6, 4, 20, 24)

    bare, explicit = (
        backend.gated_delta_net(each, PLAIN)
        for each in (inputs, replace(inputs, initial_state=zeros))
    )

    assert torch.equal(bare.output, explicit.output)
    assert torch.equal(_final(bare.final_state), _final(explicit.final_state))


@pytest.mark.parametrize("decay", [-torch.inf, -200.0, -30.0, 0.0])
def test_a_factor_may_forget_everything_or_nothing(backend: StateBackend, decay: float) -> None:
    inputs = random_delta(4, DeltaOptions(tokens=(3, 90)))
    inputs.decay[1] = decay
    inputs.decay[40] = decay
    inputs.decay[70:75] = decay
    expected = run_gated_delta_net(inputs, NORMED, torch.float64)

    result = backend.gated_delta_net(inputs, NORMED)

    expect_close(result.output, expected.output)
    expect_close(_final(result.final_state), _final(expected.final_state))


def test_a_pool_gives_what_plain_states_give_and_keeps_other_rows(backend: StateBackend) -> None:
    inputs = random_delta(5)
    write = (9, 3, 6, -1, 1, -1)
    pool = in_pool(state_of(inputs), 7, read=(3, 9, 0, 11, 5, 12), write=write)
    before = pool.states.clone()

    plain = backend.gated_delta_net(inputs, PLAIN)
    pooled = backend.gated_delta_net(replace(inputs, initial_state=None, pool=pool), PLAIN)

    assert pooled.final_state is None
    assert torch.equal(pooled.output, plain.output)
    expected = before.flatten(0, 1)
    for row, number in enumerate(write):
        if number >= 0:
            expected[number] = _final(plain.final_state)[row]
    rows = pool.states.flatten(0, 1)
    assert torch.equal(rows.nan_to_num(7.0), expected.nan_to_num(7.0))


@pytest.mark.parametrize("tokens", [(2, 1, 9, 3), (70, 5, 64, 129)])
def test_every_state_is_read_before_any_is_written(
    backend: StateBackend, tokens: tuple[int, ...]
) -> None:
    inputs = random_delta(6, DeltaOptions(tokens=tokens))
    pool = in_pool(state_of(inputs), 3, read=(0, 1, 2, 3), write=(1, 2, 0, 3))

    plain = backend.gated_delta_net(inputs, PLAIN)
    pooled = backend.gated_delta_net(replace(inputs, initial_state=None, pool=pool), PLAIN)

    assert torch.equal(pooled.output, plain.output)
    assert torch.equal(pool.states.flatten(0, 1)[[1, 2, 0, 3]], _final(plain.final_state))


def test_a_row_of_no_place_starts_from_zeros_and_is_not_kept(backend: StateBackend) -> None:
    inputs = random_delta(7, DeltaOptions(tokens=(2, 70, 6), has_state=False))
    states = torch.full((1, 2, 4, 20, 24), torch.nan)
    pool = StatePool(states, int32(-1, -1, -1), int32(1, -1, -1))

    plain = backend.gated_delta_net(inputs, PLAIN)
    pooled = backend.gated_delta_net(replace(inputs, pool=pool), PLAIN)

    assert torch.equal(pooled.output, plain.output)
    assert torch.equal(states[0, 1], _final(plain.final_state)[0])
    assert bool(states[0, 0].isnan().all())


def test_rows_without_tokens_carry_their_state_on(backend: StateBackend) -> None:
    inputs = random_delta(8, DeltaOptions(tokens=(0, 0, 0)))
    pool = in_pool(state_of(inputs), 2, read=(0, 2, 1), write=(3, 2, -1))

    plain = backend.gated_delta_net(inputs, PLAIN)
    backend.gated_delta_net(replace(inputs, initial_state=None, pool=pool), PLAIN)

    assert plain.output.shape == (0, 4, 20)
    assert torch.equal(_final(plain.final_state), state_of(inputs))
    assert torch.equal(pool.states.flatten(0, 1)[[3, 2, 1]], state_of(inputs))


def test_a_large_batch_gives_each_row_what_it_has_alone(backend: StateBackend) -> None:
    tokens = tuple((1, 1, 0, 3, 7)[row % 5] for row in range(257))
    inputs = random_delta(9, DeltaOptions(tokens=tokens, key_size=8, value_size=9))
    ends = boundaries_of(tokens).tolist()

    whole = backend.gated_delta_net(inputs, NORMED)

    for row in (0, 1, 2, 3, 4, 128, 255, 256):
        packed = slice(ends[row], ends[row + 1])
        own = delta_tokens(inputs, packed, state_of(inputs)[row : row + 1])
        alone = backend.gated_delta_net(own, NORMED)
        assert torch.equal(alone.output, whole.output[packed])
        assert torch.equal(_final(alone.final_state)[0], _final(whole.final_state)[row])


def test_tokens_may_be_strided(backend: StateBackend) -> None:
    inputs = random_delta(10)
    tokens = inputs.query.shape[0]
    packed = torch.cat([x.flatten(1) for x in (inputs.query, inputs.key, inputs.value)], dim=1)
    query, key, value = torch.split(packed, [48, 48, 80], dim=1)
    strided = replace(
        inputs,
        query=query.view(tokens, 2, 24),
        key=key.view(tokens, 2, 24),
        value=value.view(tokens, 4, 20),
    )

    result = backend.gated_delta_net(strided, PLAIN)

    assert torch.equal(result.output, backend.gated_delta_net(inputs, PLAIN).output)


def test_the_function_takes_the_compiled_backend_on_a_host() -> None:
    inputs = random_delta(11)

    results = [gated_delta_net(inputs, None, name) for name in (None, "cpu", "reference")]

    assert torch.equal(results[0].output, results[1].output)
    expect_close(results[0].output, results[2].output)


def state_of(inputs: GatedDeltaNetInputs) -> Tensor:
    assert inputs.initial_state is not None
    return inputs.initial_state


def _final(state: Tensor | None) -> Tensor:
    assert state is not None
    return state
