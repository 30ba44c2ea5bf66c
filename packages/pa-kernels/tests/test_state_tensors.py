"""Tensors of the state operators beyond plain memory: negated views, gradients, odd strides."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels import GatedDeltaNetAttributes, StatePool, gated_delta_net, varlen_causal_conv
from pa_kernels.state.backend import StateBackend
from pa_spec import InputUnusable
from state_problem import (
    EVERYTHING,
    ConvOptions,
    DeltaOptions,
    expect_bits,
    in_pool,
    int32,
    random_conv,
    random_delta,
)
from torch import Tensor

CONV = random_conv(1, ConvOptions(tokens=(2, 5), channels=8))
DELTA = random_delta(1, DeltaOptions(tokens=(2, 66), key_size=8, value_size=6, has_rates=True))
NORMED = GatedDeltaNetAttributes(qk_l2norm=True)
CONV_TENSORS = ("input", "weight", "bias", "initial_state", "cumulative_sequence_length")
DELTA_TENSORS = (
    "query",
    "key",
    "value",
    "decay",
    "beta",
    "a_log",
    "dt_bias",
    "initial_state",
    "cumulative_sequence_length",
)


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


def negated(tensor: Tensor) -> Tensor:
    """Return the same numbers over memory that holds their opposites."""
    view: Tensor = torch._neg_view(-tensor)
    assert view.is_neg()
    return view


@pytest.mark.parametrize("name", CONV_TENSORS)
def test_a_negated_view_in_a_convolution_keeps_its_sign(backend: StateBackend, name: str) -> None:
    view = replace(CONV, **{name: negated(getattr(CONV, name))})  # type: ignore[arg-type]

    result, expected = (backend.causal_conv(each, "silu") for each in (view, CONV))

    expect_bits(backend, result.output, expected.output)
    assert result.final_state is not None
    assert expected.final_state is not None
    assert torch.equal(result.final_state, expected.final_state)


@pytest.mark.parametrize("name", DELTA_TENSORS)
def test_a_negated_view_in_a_delta_rule_keeps_its_sign(backend: StateBackend, name: str) -> None:
    view = replace(DELTA, **{name: negated(getattr(DELTA, name))})  # type: ignore[arg-type]

    output = gated_delta_net(view, backend="cpu").output
    result, expected = (backend.gated_delta_net(each, NORMED) for each in (view, DELTA))

    assert torch.equal(output, gated_delta_net(DELTA, backend="cpu").output)
    expect_bits(backend, result.output, expected.output)


def test_negated_row_numbers_are_taken_as_they_read(backend: StateBackend) -> None:
    (pool, _), (twin, _) = pools(), pools()
    view = StatePool(pool.states, negated(pool.read_rows), negated(pool.write_rows))

    for each in (view, twin):
        backend.causal_conv(replace(CONV, initial_state=None, pool=each), "none")

    assert torch.equal(pool.states.nan_to_num(7.0), twin.states.nan_to_num(7.0))


def test_the_imaginary_part_of_a_conjugate_is_a_gate_as_it_reads(backend: StateBackend) -> None:
    imaginary = torch.complex(DELTA.decay, -DELTA.decay).conj().imag
    assert imaginary.is_neg()

    result, expected = (
        backend.gated_delta_net(replace(DELTA, decay=decay), NORMED).output
        for decay in (imaginary, DELTA.decay)
    )

    expect_bits(backend, result, expected)


@pytest.mark.parametrize("name", ["decay", "beta", "a_log", "dt_bias"])
def test_gates_may_have_any_strides(backend: StateBackend, name: str) -> None:
    gate: Tensor = getattr(DELTA, name)
    strided = torch.stack((gate, torch.full_like(gate, torch.nan)), dim=-1)[..., 0]
    assert not strided.is_contiguous()

    result, expected = (
        backend.gated_delta_net(each, NORMED).output
        for each in (replace(DELTA, **{name: strided}), DELTA)  # type: ignore[arg-type]
    )

    expect_bits(backend, result, expected)


def pools() -> tuple[StatePool, StatePool]:
    assert CONV.initial_state is not None
    assert DELTA.initial_state is not None
    return (
        in_pool(CONV.initial_state, 3, read=(0, 1), write=(1, -1)),
        in_pool(DELTA.initial_state, 3, read=(0, 1), write=(1, -1)),
    )


def expect_refused(conv: StatePool, delta: StatePool, message: str) -> None:
    before = (conv.states.detach().clone(), delta.states.detach().clone())

    with pytest.raises(InputUnusable, match=message):
        varlen_causal_conv(replace(CONV, initial_state=None, pool=conv))
    with pytest.raises(InputUnusable, match=message):
        gated_delta_net(replace(DELTA, initial_state=None, pool=delta))

    for pool, states in zip((conv, delta), before, strict=True):
        assert torch.equal(pool.states.detach().nan_to_num(7.0), states.nan_to_num(7.0))


def test_a_negated_pool_is_refused() -> None:
    conv, delta = (replace(pool, states=negated(pool.states)) for pool in pools())

    expect_refused(conv, delta, "pool: a negated view; allowed: the memory itself")


def test_a_pool_that_requires_grad_is_refused() -> None:
    conv, delta = pools()
    conv.states.requires_grad_()
    delta.states.requires_grad_()

    expect_refused(conv, delta, "pool: requires grad; allowed: a pool without gradients")


def test_results_are_detached_from_inputs_that_require_grad(backend: StateBackend) -> None:
    conv = replace(CONV, weight=CONV.weight.clone().requires_grad_())
    delta = replace(DELTA, value=DELTA.value.clone().requires_grad_())

    for result in (backend.causal_conv(conv, "none"), backend.gated_delta_net(delta, NORMED)):
        assert not result.output.requires_grad
        assert result.final_state is not None
        assert not result.final_state.requires_grad


def test_the_registered_operators_refuse_a_backward() -> None:
    weight = CONV.weight.clone().requires_grad_()
    output, _ = torch.ops.pa.varlen_causal_conv(CONV.input, weight, CONV.cumulative_sequence_length)

    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        output.sum().backward()


def test_a_call_tells_autograd_that_it_wrote_the_pool(backend: StateBackend) -> None:
    conv, delta = pools()
    versions = conv.states._version, delta.states._version

    backend.causal_conv(replace(CONV, initial_state=None, pool=conv), "none")
    backend.gated_delta_net(replace(DELTA, initial_state=None, pool=delta), NORMED)

    assert conv.states._version > versions[0]
    assert delta.states._version > versions[1]


def test_a_pool_of_inference_mode_is_written(backend: StateBackend) -> None:
    with torch.inference_mode():
        conv, _ = pools()
        backend.causal_conv(replace(CONV, initial_state=None, pool=conv), "none")

    # The first sequence has two tokens, which stand last in its new state.
    assert torch.equal(conv.states[0, 1, :, 1:], CONV.input[:2].T)


def test_a_backward_that_saved_the_pool_finds_it_changed() -> None:
    conv, _ = pools()
    factor = torch.ones((), requires_grad=True)
    product = (factor * conv.states).sum()

    varlen_causal_conv(replace(CONV, initial_state=None, pool=conv))

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()  # type: ignore[no-untyped-call]


def test_the_stride_of_a_single_token_means_nothing() -> None:
    conv = random_conv(3, ConvOptions(tokens=(1,), channels=8))
    delta = random_delta(3, DeltaOptions(tokens=(1,), key_size=8, value_size=6))
    oddly = replace(conv, input=conv.input.as_strided((1, 8), (1, 1)))
    stepped = replace(delta, value=delta.value.as_strided((1, 4, 6), (2, 6, 1)))

    assert torch.equal(varlen_causal_conv(oddly).output, varlen_causal_conv(conv).output)
    assert torch.equal(gated_delta_net(stepped).output, gated_delta_net(delta).output)


def test_one_tap_has_a_pool_of_rows_without_numbers(backend: StateBackend) -> None:
    inputs = random_conv(2, ConvOptions(tokens=(2, 0, 5), channels=8, taps=1, has_state=False))
    pool = StatePool(torch.zeros(2, 3, 8, 0), int32(5, -1, 0), int32(0, 5, -1))

    result = backend.causal_conv(replace(inputs, pool=pool), "silu")

    assert result.final_state is None
    expect_bits(backend, result.output, backend.causal_conv(inputs, "silu").output)


def test_rows_are_counted_also_where_they_have_no_numbers(backend: StateBackend) -> None:
    inputs = random_conv(2, ConvOptions(tokens=(2,), channels=8, taps=1, has_state=False))
    pool = StatePool(torch.zeros(2, 3, 8, 0), int32(6), int32(-1))

    with pytest.raises(InputUnusable, match="read_rows: row 0 has 6"):
        backend.causal_conv(replace(inputs, pool=pool), "none")
