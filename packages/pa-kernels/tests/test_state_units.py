"""The compiled state operators on random calls: against the oracle in float64, on every unit.

Also what belongs to the compiled code alone: threads, and NaN that must not cross lanes or tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pa_kernels import GatedDeltaNetAttributes, GatedDeltaNetInputs, StateOutputs
from pa_kernels.state.backend import StateBackend
from pa_kernels.state.compiled import CompiledStates
from pa_kernels.state.reference_conv import run_causal_conv
from pa_kernels.state.reference_delta import run_gated_delta_net
from pa_kernels.testing import expect_close
from state_problem import COMPILED, DTYPES, ConvOptions, DeltaOptions, random_conv, random_delta
from torch import Tensor

SEED = st.integers(0, 2**31)
NORMED = GatedDeltaNetAttributes(qk_l2norm=True)


@pytest.fixture(params=COMPILED.values(), ids=list(COMPILED))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


def expect_oracle(result: StateOutputs, expected: StateOutputs) -> None:
    expect_close(result.output, expected.output)
    assert result.final_state is not None
    assert expected.final_state is not None
    expect_close(result.final_state, expected.final_state)


CONV_OPTIONS = st.builds(
    ConvOptions,
    tokens=st.lists(st.sampled_from([0, 1, 2, 3, 31, 32, 33, 65]), min_size=1, max_size=5).map(
        tuple
    ),
    channels=st.sampled_from([1, 3, 16, 17, 63, 64, 65, 130]),
    taps=st.integers(1, 6),
    dtype=st.sampled_from(DTYPES),
    has_bias=st.booleans(),
    has_state=st.booleans(),
)
CHUNK_EDGES = [0, 1, 4, 5, 15, 16, 17, 63, 64, 65, 68, 69, 130]
DELTA_OPTIONS = st.builds(
    lambda group, **options: DeltaOptions(heads=group * options["key_heads"], **options),
    group=st.integers(1, 3),
    tokens=st.lists(st.sampled_from(CHUNK_EDGES), min_size=1, max_size=3).map(tuple),
    key_heads=st.integers(1, 3),
    key_size=st.sampled_from([1, 8, 10, 16, 33, 64, 128]),
    value_size=st.sampled_from([1, 8, 15, 16, 40, 128]),
    dtype=st.sampled_from(DTYPES),
    has_state=st.booleans(),
    has_rates=st.booleans(),
)


@settings(max_examples=40)
@given(seed=SEED, options=CONV_OPTIONS)
def test_convolutions_give_what_the_oracle_gives(seed: int, options: ConvOptions) -> None:
    inputs = random_conv(seed, options)
    activation = ("none", "silu")[seed % 2]
    expected = run_causal_conv(inputs, activation, torch.float64)

    for backend in COMPILED.values():
        expect_oracle(backend.causal_conv(inputs, activation), expected)


@settings(max_examples=40)
@given(seed=SEED, options=DELTA_OPTIONS)
def test_gated_delta_rules_give_what_the_oracle_gives(seed: int, options: DeltaOptions) -> None:
    inputs = random_delta(seed, options)
    attributes = GatedDeltaNetAttributes(scale=(0.0, 0.3)[seed % 2], qk_l2norm=seed % 3 > 0)
    expected = run_gated_delta_net(inputs, attributes, torch.float64)

    for backend in COMPILED.values():
        expect_oracle(backend.gated_delta_net(inputs, attributes), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_prompts_do_not_drift(backend: StateBackend, dtype: torch.dtype) -> None:
    options = DeltaOptions((1500,), 1, 2, 32, 32, dtype, has_rates=True)
    inputs = random_delta(1, options)
    # The first head forgets nearly nothing in 1,500 tokens.
    assert inputs.a_log is not None
    inputs.a_log[0] = -12.0

    expected = run_gated_delta_net(inputs, NORMED, torch.float64)

    expect_oracle(backend.gated_delta_net(inputs, NORMED), expected)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_any_number_of_threads_gives_the_same_bits(backend: StateBackend) -> None:
    conv = random_conv(2, ConvOptions((300, 1, 0, 77), channels=400))
    delta = random_delta(2, DeltaOptions((300, 1, 0, 77), 2, 4, 64, 64))
    results = []
    for count in (1, 2, 3, 5):
        with threads(count):
            both = (backend.causal_conv(conv, "silu"), backend.gated_delta_net(delta, NORMED))
            results.append(both)

    for both in results[1:]:
        for actual, expected in zip(both, results[0], strict=True):
            assert torch.equal(actual.output, expected.output)
            assert actual.final_state is not None
            assert expected.final_state is not None
            assert torch.equal(actual.final_state, expected.final_state)


NAN_TOKEN = 30


@pytest.mark.parametrize("name", ["query", "key", "value", "decay", "beta", "initial_state"])
def test_nan_stays_in_its_row_and_reaches_no_earlier_token(
    backend: StateBackend, name: str
) -> None:
    # The row in the middle, of 70 tokens in two chunks, has packed tokens 9 to 78.
    inputs = random_delta(3, DeltaOptions(tokens=(9, 70, 3)))
    spoiled = planted(inputs, name, 1 if name == "initial_state" else 9 + NAN_TOKEN)

    clean, dirty = (backend.gated_delta_net(each, NORMED) for each in (inputs, spoiled))

    reached = dirty.output.isnan().any(dim=2).any(dim=1)
    first = 9 if name == "initial_state" else 9 + NAN_TOKEN
    last = first + 1 if name == "query" else 79
    assert reached.nonzero().flatten().tolist() == list(range(first, last))
    assert torch.equal(dirty.output[~reached], clean.output[~reached])
    assert clean.final_state is not None
    assert dirty.final_state is not None
    assert torch.equal(dirty.final_state[[0, 2]], clean.final_state[[0, 2]])
    assert bool(dirty.final_state[1].isnan().any()) == (name != "query")


def planted(inputs: GatedDeltaNetInputs, name: str, index: int) -> GatedDeltaNetInputs:
    tensor: Tensor = getattr(inputs, name).clone()
    tensor[index] = torch.nan
    return replace(inputs, **{name: tensor})  # type: ignore[arg-type]


def test_nan_in_one_channel_of_a_value_stays_in_that_channel(backend: StateBackend) -> None:
    inputs = random_delta(4, DeltaOptions(tokens=(70, 2)))
    inputs.value[NAN_TOKEN, 1, 7] = torch.nan

    output = backend.gated_delta_net(inputs, NORMED).output

    expected = [[token, 1, 7] for token in range(NAN_TOKEN, 70)]
    assert output.isnan().nonzero().tolist() == expected


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="no such instruction-set unit here: vax"):
        CompiledStates("vax")
