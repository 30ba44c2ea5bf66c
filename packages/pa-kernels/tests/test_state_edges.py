"""Edges of the state operators: calls that are missing something, numbers, and shared rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from pa_kernels import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StatePool,
    gated_delta_net,
    varlen_causal_conv,
)
from pa_kernels.state.backend import StateBackend
from pa_kernels.testing import expect_close
from pa_spec import InputUnusable
from state_problem import (
    COMPILED,
    EVERYTHING,
    ConvOptions,
    DeltaOptions,
    int32,
    random_conv,
    random_delta,
)
from torch import Tensor

CONV = random_conv(1, ConvOptions(tokens=(2, 5), channels=8))
DELTA = random_delta(1, DeltaOptions(tokens=(2, 5), key_size=8, value_size=6))


@pytest.fixture(params=EVERYTHING.values(), ids=list(EVERYTHING))
def backend(request: pytest.FixtureRequest) -> StateBackend:
    chosen: StateBackend = request.param
    return chosen


@pytest.mark.parametrize("name", ["input", "weight", "cumulative_sequence_length"])
def test_a_missing_tensor_of_a_convolution_is_named(name: str) -> None:
    with pytest.raises(InputUnusable, match=f"{name}: missing; allowed: a tensor"):
        varlen_causal_conv(replace(CONV, **{name: None}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["query", "key", "value", "cumulative_sequence_length", "decay", "beta"]
)
def test_a_missing_tensor_of_a_delta_rule_is_named(name: str) -> None:
    with pytest.raises(InputUnusable, match=f"{name}: missing; allowed: a tensor"):
        gated_delta_net(replace(DELTA, **{name: None}))  # type: ignore[arg-type]
    with pytest.raises(InputUnusable, match=f"{name}: a list; allowed: a tensor"):
        gated_delta_net(replace(DELTA, **{name: [1.0]}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["states", "read_rows", "write_rows"])
def test_a_missing_part_of_a_pool_is_named(name: str) -> None:
    pool = replace(
        StatePool(torch.zeros(3, 8, 3), int32(0, 1), int32(0, 1)),
        **{name: None},  # type: ignore[arg-type]
    )

    with pytest.raises(InputUnusable, match=f"{name}: missing; allowed: a tensor"):
        varlen_causal_conv(replace(CONV, initial_state=None, pool=pool))


@pytest.mark.parametrize("missing", [5, 6, 7])
def test_the_registered_operators_want_every_part_of_a_pool(missing: int) -> None:
    tensors = [CONV.input, CONV.weight, CONV.cumulative_sequence_length, None, None]
    tensors += [torch.zeros(3, 8, 3), int32(0, 1), int32(0, 1)]
    tensors[missing] = None

    with pytest.raises(InputUnusable, match="pool: a part of it is missing"):
        torch.ops.pa.varlen_causal_conv(*tensors)


@pytest.mark.parametrize("name", ["scale", "l2norm_epsilon"])
@pytest.mark.parametrize("number", ["1", None, float("nan"), float("inf"), 1e39, -1e39])
def test_attributes_are_finite_numbers_of_float32(name: str, number: object) -> None:
    attributes = replace(GatedDeltaNetAttributes(), **{name: number})  # type: ignore[arg-type]

    with pytest.raises(InputUnusable) as refused:
        gated_delta_net(DELTA, attributes)

    assert str(refused.value).startswith(f"{name}: {number!r}; allowed: a finite number of float32")


@pytest.mark.parametrize("scale", [3.4e38, -3.4e38, 2])
def test_the_largest_numbers_and_integers_are_scales(scale: float) -> None:
    tiny = replace(DELTA, query=DELTA.query * 2.0**-40)

    output = gated_delta_net(tiny, GatedDeltaNetAttributes(scale=scale)).output

    # The output is linear in the scale.
    expected = gated_delta_net(tiny, GatedDeltaNetAttributes(scale=1.0)).output.double() * scale
    torch.testing.assert_close(
        output.double(), expected, rtol=1e-5, atol=1e-6 * abs(scale) * 2**-40
    )


def test_an_epsilon_of_zero_is_one() -> None:
    attributes = GatedDeltaNetAttributes(qk_l2norm=True, l2norm_epsilon=0.0)

    output = gated_delta_net(DELTA, attributes).output

    expect_close(output, gated_delta_net(DELTA, replace(attributes, l2norm_epsilon=1e-12)).output)


def test_epsilon_stands_under_the_root_by_hand(backend: StateBackend) -> None:
    # Both lengths are sqrt(9 + 16 + 11) = 6: key (0.5, 2/3) takes the value 6, and the query reads
    # 6 * (0.5 * 0.5 + 4/9) = 25/6.
    vector = torch.tensor([[[3.0, 4.0]]])
    inputs = GatedDeltaNetInputs(
        query=vector,
        key=vector,
        value=torch.tensor([[[6.0]]]),
        cumulative_sequence_length=int32(0, 1),
        decay=torch.zeros(1, 1),
        beta=torch.ones(1, 1),
    )
    attributes = GatedDeltaNetAttributes(scale=1.0, qk_l2norm=True, l2norm_epsilon=11.0)

    result = backend.gated_delta_net(inputs, attributes)

    expect_close(result.output.flatten(), torch.tensor([25.0 / 6.0]))
    assert result.final_state is not None
    expect_close(result.final_state.flatten(), torch.tensor([3.0, 4.0]))


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("tokens", [(0, 0), ()])
def test_calls_without_tokens_return_the_states_they_got(
    name: str, tokens: tuple[int, ...]
) -> None:
    conv = random_conv(1, ConvOptions(tokens=tokens, channels=8))
    delta = random_delta(1, DeltaOptions(tokens=tokens, key_size=8, value_size=6))

    convolved = varlen_causal_conv(conv, backend=name)
    corrected = gated_delta_net(delta, backend=name)

    assert (convolved.output.shape, corrected.output.shape) == ((0, 8), (0, 4, 6))
    for result, inputs in ((convolved, conv), (corrected, delta)):
        assert result.final_state is not None
        assert inputs.initial_state is not None
        assert torch.equal(result.final_state, inputs.initial_state)


def test_a_pool_without_rows_serves_what_starts_from_zeros_and_is_dropped(
    backend: StateBackend,
) -> None:
    conv = replace(CONV, initial_state=None)
    delta = replace(DELTA, initial_state=None)
    nowhere = int32(-1, -1)

    convolved, corrected = (
        replace(conv, pool=StatePool(torch.zeros(2, 0, 8, 3), nowhere, nowhere)),
        replace(delta, pool=StatePool(torch.zeros(2, 0, 4, 6, 8), nowhere, nowhere)),
    )

    assert torch.equal(run(backend, convolved), run(backend, conv))
    assert torch.equal(run(backend, corrected), run(backend, delta))


@pytest.mark.parametrize("tokens", [6, 8])
def test_values_of_fewer_and_of_more_tokens_are_refused(tokens: int) -> None:
    value = torch.zeros(tokens, 4, 6)

    with pytest.raises(InputUnusable, match=rf"value: shape \[{tokens}, 4, 6\]; .* \[T=7, Hv, Dv"):
        gated_delta_net(replace(DELTA, value=value))


def test_heads_that_do_not_divide_are_both_counted() -> None:
    with pytest.raises(InputUnusable, match="Hv=3 a multiple of key's Hk=2"):
        gated_delta_net(replace(DELTA, value=torch.zeros(7, 3, 6)))
    empty = torch.zeros(7, 0, 8)
    with pytest.raises(InputUnusable, match=r"query: shape \[7, 0, 8\]; .* at least one head"):
        gated_delta_net(replace(DELTA, query=empty, key=empty))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_empty_state_beside_a_pool_has_the_states_type(dtype: torch.dtype) -> None:
    conv = random_conv(1, ConvOptions(tokens=(2, 5), channels=8, dtype=dtype))
    delta = random_delta(1, DeltaOptions(tokens=(2, 5), key_size=8, value_size=6, dtype=dtype))
    rows = int32(0, 1)
    conv_call: list[Tensor | None] = [
        conv.input,
        conv.weight,
        conv.cumulative_sequence_length,
        None,
        None,
    ]
    conv_call += [torch.zeros(2, 8, 3, dtype=dtype), rows, rows]
    delta_call: list[Tensor | None] = [
        delta.query,
        delta.key,
        delta.value,
        delta.cumulative_sequence_length,
    ]
    delta_call += [delta.decay, delta.beta, None, None, None]
    delta_call += [torch.zeros(2, 4, 6, 8), rows, rows]

    for operator, call, expected in (
        (torch.ops.pa.varlen_causal_conv, conv_call, dtype),
        (torch.ops.pa.gated_delta_net, delta_call, torch.float32),
    ):
        for where in ("cpu", "meta"):
            output, state = operator(*(each if each is None else each.to(where) for each in call))
            assert (output.dtype, state.dtype, state.shape) == (dtype, expected, (0,))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def crossing_delta(read: Tensor, write: Tensor) -> GatedDeltaNetInputs:
    """Make one token for a large state, and a sequence without tokens that moves one at once."""
    inputs = random_delta(2, DeltaOptions((4, 0), 1, 1, 1024, 1024, has_state=False))
    states = torch.randn(2, 1, 1024, 1024, generator=torch.Generator().manual_seed(3))
    return replace(inputs, pool=StatePool(states, read, write))


def crossing_conv(read: Tensor, write: Tensor) -> CausalConvInputs:
    inputs = random_conv(2, ConvOptions((700, 0), channels=64, taps=60, has_state=False))
    states = torch.randn(2, 64, 59, generator=torch.Generator().manual_seed(3))
    return replace(inputs, pool=StatePool(states, read, write))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("rows", [((0, 1), (1, 0)), ((0, 1), (-1, 0)), ((0, 1), (1, -1))])
@pytest.mark.parametrize("name", COMPILED)
def test_threads_read_every_state_before_another_sequence_writes_it(
    name: str, rows: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    backend, read, write = COMPILED[name], int32(*rows[0]), int32(*rows[1])
    delta, conv = crossing_delta(read, write), crossing_conv(read, write)
    for call in (delta, conv):
        assert call.pool is not None
        before, moved = call.pool.states.clone(), rows[1][1]
        # Without a pool every sequence has its own copy.
        plain = replace(call, pool=None, initial_state=before)
        expected = run(backend, plain)
        for _ in range(10):
            call.pool.states.copy_(before)
            assert torch.equal(run(backend, call), expected)
            if moved >= 0:
                assert torch.equal(call.pool.states[moved], before[1])


def run(backend: StateBackend, inputs: CausalConvInputs | GatedDeltaNetInputs) -> Tensor:
    if isinstance(inputs, CausalConvInputs):
        return backend.causal_conv(inputs, "none").output
    return backend.gated_delta_net(inputs, GatedDeltaNetAttributes(qk_l2norm=True)).output
