"""Bad calls of the state operators are refused by name, before anything has changed."""

from __future__ import annotations

from collections.abc import Callable
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
from pa_spec import InputUnusable
from state_problem import (
    ConvOptions,
    DeltaOptions,
    in_pool,
    int32,
    random_conv,
    random_delta,
)
from torch import Tensor

BACKENDS = ("cpu", "reference")

Values = Callable[[StatePool], tuple[Tensor, StatePool]]

BAD_VALUES: dict[str, tuple[Values, str]] = {
    "first": (
        lambda pool: (int32(1, 2, 5), pool),
        "cumulative_sequence_length: begins with 1; allowed: a first entry of 0",
    ),
    "last": (
        lambda pool: (int32(0, 2, 4), pool),
        "cumulative_sequence_length: ends with 4; allowed: a last entry of T=5",
    ),
    "beyond": (
        lambda pool: (int32(0, 2, 6), pool),
        "cumulative_sequence_length: ends with 6; allowed: a last entry of T=5",
    ),
    "order": (
        lambda pool: (int32(0, 6, 5), pool),
        "cumulative_sequence_length: row 1 ends at 5 before 6; allowed: ascending ends",
    ),
    "read above": (
        lambda pool: (int32(0, 2, 5), replace(pool, read_rows=int32(0, 6))),
        "read_rows: row 1 has 6; allowed: -1, or one of the pool's 6 rows",
    ),
    "read below": (
        lambda pool: (int32(0, 2, 5), replace(pool, read_rows=int32(-2, 0))),
        "read_rows: row 0 has -2; allowed: -1, or one of the pool's 6 rows",
    ),
    "write above": (
        lambda pool: (int32(0, 2, 5), replace(pool, write_rows=int32(2, 2**31 - 1))),
        "write_rows: row 1 has 2147483647; allowed: -1, or one of the pool's 6 rows",
    ),
    "write below": (
        lambda pool: (int32(0, 2, 5), replace(pool, write_rows=int32(-9, 2))),
        "write_rows: row 0 has -9; allowed: -1, or one of the pool's 6 rows",
    ),
    "write twice": (
        lambda pool: (int32(0, 2, 5), replace(pool, write_rows=int32(4, 4))),
        "write_rows: rows 0 and 1 both have 4; allowed: different rows of the pool, or -1",
    ),
}


def conv_call() -> CausalConvInputs:
    return random_conv(0, ConvOptions(tokens=(2, 3), channels=8))


def delta_call() -> GatedDeltaNetInputs:
    return random_delta(0, DeltaOptions(tokens=(2, 3), key_size=8, value_size=6))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("change", "message"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_lengths_and_rows_of_a_convolution(backend: str, change: Values, message: str) -> None:
    inputs = conv_call()
    assert inputs.initial_state is not None
    pool = in_pool(inputs.initial_state, 3, read=(0, 1), write=(3, 4))
    before = pool.states.clone()
    boundaries, bad = change(pool)
    call = replace(inputs, cumulative_sequence_length=boundaries, initial_state=None, pool=bad)

    with pytest.raises(InputUnusable) as refused:
        varlen_causal_conv(call, backend=backend)

    assert str(refused.value) == message
    assert torch.equal(pool.states.nan_to_num(7.0), before.nan_to_num(7.0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("change", "message"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_lengths_and_rows_of_a_delta_rule(backend: str, change: Values, message: str) -> None:
    inputs = delta_call()
    assert inputs.initial_state is not None
    pool = in_pool(inputs.initial_state, 3, read=(0, 1), write=(3, 4))
    before = pool.states.clone()
    boundaries, bad = change(pool)
    call = replace(inputs, cumulative_sequence_length=boundaries, initial_state=None, pool=bad)

    with pytest.raises(InputUnusable) as refused:
        gated_delta_net(call, backend=backend)

    assert str(refused.value) == message
    assert torch.equal(pool.states.nan_to_num(7.0), before.nan_to_num(7.0))


def test_the_nearest_legal_numbers_pass() -> None:
    conv, delta = conv_call(), delta_call()
    assert conv.initial_state is not None
    assert delta.initial_state is not None
    for backend in BACKENDS:
        pool = in_pool(conv.initial_state, 3, read=(0, 5), write=(5, -1))
        varlen_causal_conv(replace(conv, initial_state=None, pool=pool), backend=backend)
        pool = in_pool(delta.initial_state, 3, read=(0, 5), write=(5, -1))
        gated_delta_net(replace(delta, initial_state=None, pool=pool), backend=backend)


def _conv_pool(states: Tensor, read: Tensor | None = None) -> StatePool:
    rows = int32(0, 1)
    return StatePool(states, rows if read is None else read, rows)


BAD_CONV: dict[str, tuple[dict[str, Tensor | StatePool | None], str]] = {
    "rank": ({"input": torch.zeros(5, 8, 1)}, r"input: shape \[5, 8, 1\]; allowed: \[T, C\]"),
    "element": ({"input": torch.zeros(5, 8).double()}, "input: torch.float64; allowed: float32"),
    "strides": ({"input": torch.zeros(8, 5).T}, r"input: strides \(1, 5\); allowed: tokens that"),
    "expanded": ({"input": torch.zeros(1, 8).expand(5, 8)}, r"input: strides \(0, 1\)"),
    "overlapping": (
        {"input": torch.zeros(36).as_strided((5, 8), (7, 1))},
        r"input: strides \(7, 1\); allowed: tokens that are contiguous",
    ),
    "weight": ({"weight": torch.zeros(7, 1, 4)}, r"weight: shape \[7, 1, 4\]; .* \[8, 1, 4\]"),
    "groups": ({"weight": torch.zeros(8, 2, 4)}, r"weight: shape .* \[C, 1, K\] or \[C, K\]"),
    "no taps": ({"weight": torch.zeros(8, 0)}, "weight: shape .* one channel and one tap"),
    "no channels": (
        {"input": torch.zeros(5, 0), "weight": torch.zeros(0, 4)},
        "weight: shape .* one channel and one tap",
    ),
    "weight type": ({"weight": torch.zeros(8, 4).half()}, "weight: torch.float16 on cpu"),
    "bias": ({"bias": torch.zeros(9)}, r"bias: shape \[9\]; allowed: \[8\]"),
    "bias type": ({"bias": torch.zeros(8).bfloat16()}, "bias: torch.bfloat16 on cpu"),
    "bias device": (
        {"bias": torch.zeros(8, device="meta")},
        "bias: torch.float32 on meta; allowed: torch.float32 on cpu",
    ),
    "state": ({"initial_state": torch.zeros(2, 8, 4)}, r"initial_state: .* \[2, 8, 3\]"),
    "state type": ({"initial_state": torch.zeros(2, 8, 3).half()}, "initial_state: torch.float16"),
    "lengths": ({"cumulative_sequence_length": torch.tensor([0, 2, 5])}, "torch.int64 on cpu"),
    "no lengths": (
        {"cumulative_sequence_length": int32()},
        r"cumulative_sequence_length: shape \[0\]; allowed: \[B\+1\]",
    ),
    "two states": ({"pool": _conv_pool(torch.zeros(2, 3, 8, 3))}, "given beside a pool"),
    "pool": (
        {"initial_state": None, "pool": _conv_pool(torch.zeros(2, 3, 8, 4))},
        r"pool: shape .* \[2, slots, \*\[8, 3\]\] or \[slots, \*\[8, 3\]\]",
    ),
    "pool axes": (
        {"initial_state": None, "pool": _conv_pool(torch.zeros(2, 2, 3, 8, 3))},
        r"pool: shape .* \[2, slots, \*\[8, 3\]\] or \[slots, \*\[8, 3\]\]",
    ),
    "pool strides": (
        {"initial_state": None, "pool": _conv_pool(torch.zeros(2, 3, 3, 8).mT)},
        "pool: strides .* allowed: contiguous",
    ),
    "rows": (
        {"initial_state": None, "pool": _conv_pool(torch.zeros(3, 8, 3), int32(0))},
        r"read_rows: shape \[1\]; allowed: \[2\]",
    ),
    "row type": (
        {"initial_state": None, "pool": _conv_pool(torch.zeros(3, 8, 3), torch.tensor([0, 1]))},
        "read_rows: torch.int64 on cpu; allowed: torch.int32 on cpu",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_CONV.values(), ids=BAD_CONV)
def test_tensors_that_are_no_convolution(
    change: dict[str, Tensor | StatePool | None], message: str
) -> None:
    inputs = conv_call()
    varlen_causal_conv(inputs)

    with pytest.raises(InputUnusable, match=message):
        varlen_causal_conv(replace(inputs, **change))  # type: ignore[arg-type]


BAD_DELTA: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "query": ({"query": torch.zeros(5, 8)}, r"query: shape \[5, 8\]; allowed: \[T, H, D\]"),
    "key": ({"key": torch.zeros(5, 2, 9)}, r"key: shape \[5, 2, 9\]; allowed: \[5, 2, 8\]"),
    "key type": ({"key": torch.zeros(5, 2, 8).half()}, "key: torch.float16 on cpu; .* as query is"),
    "key device": (
        {"key": torch.zeros(5, 2, 8, device="meta")},
        "key: torch.float32 on meta; allowed: torch.float32 on cpu, as query is",
    ),
    "tokens": ({"value": torch.zeros(4, 4, 6)}, r"value: shape .* \[T=5, Hv, Dv\]"),
    "heads": ({"value": torch.zeros(5, 3, 6)}, "value: shape .* Hv=3 a multiple of key's Hk=2"),
    "no heads": ({"value": torch.zeros(5, 0, 6)}, "value: shape .* at least one head"),
    "no numbers": ({"value": torch.zeros(5, 4, 0)}, "value: shape .* of at least one number"),
    "inner": ({"value": torch.zeros(5, 6, 4).mT}, r"value: strides \(24, 1, 4\)"),
    "decay": ({"decay": torch.zeros(5, 2)}, r"decay: shape \[5, 2\]; allowed: \[5, 4\]"),
    "decay type": ({"decay": torch.zeros(5, 4).half()}, "decay: torch.float16 .* torch.float32"),
    "beta": ({"beta": torch.zeros(4, 4)}, r"beta: shape \[4, 4\]; allowed: \[5, 4\]"),
    "rate": ({"a_log": torch.zeros(4)}, "dt_bias: missing; allowed: a_log and dt_bias together"),
    "bias": ({"dt_bias": torch.zeros(4)}, "a_log: missing; allowed: a_log and dt_bias together"),
    "rates": (
        {"a_log": torch.zeros(2), "dt_bias": torch.zeros(4)},
        r"a_log: shape \[2\]; allowed: \[4\]",
    ),
    "state": ({"initial_state": torch.zeros(2, 4, 8, 6)}, r"initial_state: .* \[2, 4, 6, 8\]"),
    "state type": (
        {"initial_state": torch.zeros(2, 4, 6, 8).bfloat16()},
        "initial_state: torch.bfloat16 on cpu; allowed: torch.float32 on cpu",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_DELTA.values(), ids=BAD_DELTA)
def test_tensors_that_are_no_delta_rule(change: dict[str, Tensor | None], message: str) -> None:
    inputs = delta_call()
    gated_delta_net(inputs)

    with pytest.raises(InputUnusable, match=message):
        gated_delta_net(replace(inputs, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (GatedDeltaNetAttributes(scale=float("nan")), "scale: nan; allowed: a finite number"),
        (GatedDeltaNetAttributes(l2norm_epsilon=-1.0), "l2norm_epsilon: -1.0; allowed: a finite"),
    ],
)
def test_numbers_outside_their_range(attributes: GatedDeltaNetAttributes, message: str) -> None:
    with pytest.raises(InputUnusable, match=message):
        gated_delta_net(delta_call(), attributes)


def test_an_unknown_activation() -> None:
    with pytest.raises(InputUnusable, match="activation: 'gelu'; allowed: none, silu, swish"):
        varlen_causal_conv(conv_call(), "gelu")


def test_a_device_without_a_backend_and_a_backend_that_is_not_there() -> None:
    inputs = conv_call()
    on_meta = CausalConvInputs(
        inputs.input.to("meta"),
        inputs.weight.to("meta"),
        inputs.cumulative_sequence_length.to("meta"),
    )

    with pytest.raises(InputUnusable, match=r"none for meta; allowed: cpu: .*; reference: .*"):
        varlen_causal_conv(on_meta)
    with pytest.raises(InputUnusable, match="backend: vax; allowed: cpu: not asked for"):
        varlen_causal_conv(inputs, backend="vax")
