"""The gated delta rule where the state grows between tokens: factors above 1, on every unit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels import DELTA_CHUNK_TOKENS, GatedDeltaNetAttributes, GatedDeltaNetInputs
from pa_kernels.state.backend import StateBackend
from pa_kernels.state.reference_delta import run_gated_delta_net
from pa_kernels.testing import expect_close
from state_problem import EVERYTHING, DeltaOptions, delta_tokens, expect_bits, int32, random_delta
from torch import Tensor

UNSCALED = GatedDeltaNetAttributes(scale=1.0)
NORMED = GatedDeltaNetAttributes(qk_l2norm=True)


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


@pytest.mark.parametrize("tokens", [64, 70, 130])
@pytest.mark.parametrize("growth", [0.2, 0.3, 1.5])
def test_what_grows_is_corrected_by_hand(backend: StateBackend, growth: float, tokens: int) -> None:
    # One key of length 1, and the whole error is corrected: the state reads as the last value.
    key = torch.full((tokens, 1, 16), 0.25)
    inputs = GatedDeltaNetInputs(
        query=key,
        key=key,
        value=torch.ones(tokens, 1, 16),
        cumulative_sequence_length=int32(0, tokens),
        decay=torch.full((tokens, 1), growth),
        beta=torch.ones(tokens, 1),
    )

    result = backend.gated_delta_net(inputs, UNSCALED)

    expect_close(result.output, torch.ones(tokens, 1, 16))
    assert result.final_state is not None
    expect_close(result.final_state, torch.full((1, 1, 16, 16), 0.25))


@pytest.mark.parametrize(
    ("growth", "tokens"), [(0.2, 70), (0.3, 70), (1.5, 20), (10.0, 3), (10.0, 4)]
)
def test_growing_states_give_what_the_oracle_gives(
    backend: StateBackend, growth: float, tokens: int
) -> None:
    inputs = random_delta(5, DeltaOptions(tokens=(tokens, 0, 2 * tokens)))
    inputs = replace(inputs, decay=torch.full_like(inputs.decay, growth))
    expected = run_gated_delta_net(inputs, NORMED, torch.float64)

    result = backend.gated_delta_net(inputs, NORMED)

    # What no key has corrected yet grows as it should: compared in shares of each token's size.
    size = expected.output.abs().amax(dim=(1, 2), keepdim=True)
    expect_close((result.output / size).float(), expected.output / size)
    assert result.final_state is not None
    assert expected.final_state is not None
    size = expected.final_state.abs().amax(dim=(1, 2, 3), keepdim=True)
    expect_close((result.final_state / size).float(), expected.final_state / size)


def growing_in_places() -> GatedDeltaNetInputs:
    """Make three chunks and 20 tokens; one head grows in the second chunk, one in the last."""
    tokens = 3 * DELTA_CHUNK_TOKENS + 20
    inputs = random_delta(6, DeltaOptions(tokens=(tokens,)))
    inputs.decay[DELTA_CHUNK_TOKENS + 7, 1] = 0.3
    inputs.decay[tokens - 3, 2] = 1.5
    return inputs


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_divisions_at_multiples_of_a_chunk_give_the_same_bits(
    backend: StateBackend, chunks: int
) -> None:
    inputs = growing_in_places()
    whole = backend.gated_delta_net(inputs, NORMED)
    cut, end = chunks * DELTA_CHUNK_TOKENS, inputs.query.shape[0]
    state: Tensor | None = inputs.initial_state
    parts = []

    for tokens in (slice(0, cut), slice(cut, end)):
        part = backend.gated_delta_net(delta_tokens(inputs, tokens, state), NORMED)
        parts.append(part.output)
        state = part.final_state

    expect_bits(backend, torch.cat(parts), whole.output)
    assert state is not None
    assert whole.final_state is not None
    expect_bits(backend, state, whole.final_state)


def test_a_growing_head_changes_no_bit_of_the_others_and_of_chunks_before(
    backend: StateBackend,
) -> None:
    inputs = growing_in_places()
    shrinking = replace(inputs, decay=inputs.decay.clamp(max=0.0))

    grown, plain = (backend.gated_delta_net(each, NORMED).output for each in (inputs, shrinking))

    expect_bits(backend, grown[:, [0, 3]], plain[:, [0, 3]])
    expect_bits(backend, grown[:DELTA_CHUNK_TOKENS], plain[:DELTA_CHUNK_TOKENS])
    assert not torch.equal(grown[:, 1:3], plain[:, 1:3])
