"""Calls of the state operators that look like a server's, and everything that can serve them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from pa_kernels import CausalConvInputs, GatedDeltaNetInputs, StatePool, _cpu
from pa_kernels.state.backend import ReferenceStates, StateBackend
from pa_kernels.state.compiled import CompiledStates
from pa_kernels.testing import expect_close
from torch import Tensor

COMPILED: dict[str, StateBackend] = {
    f"cpu-{unit}": CompiledStates(unit) for unit in _cpu.available_units()
}
EVERYTHING: dict[str, StateBackend] = {"reference": ReferenceStates(), **COMPILED}

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class ConvOptions:
    tokens: tuple[int, ...] = (3, 0, 1, 40, 2)
    channels: int = 70
    taps: int = 4
    dtype: torch.dtype = torch.float32
    has_bias: bool = True
    has_state: bool = True


@dataclass(frozen=True)
class DeltaOptions:
    tokens: tuple[int, ...] = (3, 0, 1, 70, 129, 4)
    key_heads: int = 2
    heads: int = 4
    key_size: int = 24
    value_size: int = 20
    dtype: torch.dtype = torch.float32
    has_state: bool = True
    has_rates: bool = False


def int32(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def boundaries_of(tokens: Sequence[int]) -> Tensor:
    return int32(0, *torch.tensor(tokens, dtype=torch.int64).cumsum(0).tolist())


def random_conv(seed: int, options: ConvOptions | None = None) -> CausalConvInputs:
    own = options or ConvOptions()
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).to(own.dtype)

    state = normal(len(own.tokens), own.channels, own.taps - 1)
    return CausalConvInputs(
        input=normal(sum(own.tokens), own.channels),
        weight=normal(own.channels, 1, own.taps) * 0.5,
        cumulative_sequence_length=boundaries_of(own.tokens),
        bias=normal(own.channels) if own.has_bias else None,
        initial_state=state if own.has_state else None,
    )


def random_delta(seed: int, options: DeltaOptions | None = None) -> GatedDeltaNetInputs:
    """Keys have about unit length, as the rule wants them, also without its own normalisation."""
    own = options or DeltaOptions()
    draw = torch.Generator().manual_seed(seed)
    total = sum(own.tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    rates = normal(own.heads) if own.has_rates else None
    # Some heads forget at once, others nearly nothing.
    decay = normal(total, own.heads) if own.has_rates else -normal(total, own.heads).exp()
    state = normal(len(own.tokens), own.heads, own.value_size, own.key_size)
    keys = torch.nn.functional.normalize(normal(total, own.key_heads, own.key_size), dim=-1)
    return GatedDeltaNetInputs(
        query=normal(total, own.key_heads, own.key_size).to(own.dtype),
        key=keys.to(own.dtype),
        value=normal(total, own.heads, own.value_size).to(own.dtype),
        cumulative_sequence_length=boundaries_of(own.tokens),
        decay=decay,
        beta=normal(total, own.heads).sigmoid().to(own.dtype),
        initial_state=state if own.has_state else None,
        a_log=rates,
        dt_bias=None if rates is None else normal(own.heads),
    )


def conv_tokens(inputs: CausalConvInputs, tokens: slice, state: Tensor | None) -> CausalConvInputs:
    """Cut one sequence's tokens out, to continue from a state [1, C, K-1]."""
    return replace(
        inputs,
        input=inputs.input[tokens],
        cumulative_sequence_length=int32(0, tokens.stop - tokens.start),
        initial_state=state,
    )


def delta_tokens(
    inputs: GatedDeltaNetInputs, tokens: slice, state: Tensor | None
) -> GatedDeltaNetInputs:
    """Cut one sequence's tokens out, to continue from a state [1, Hv, Dv, Dk]."""
    return replace(
        inputs,
        query=inputs.query[tokens],
        key=inputs.key[tokens],
        value=inputs.value[tokens],
        decay=inputs.decay[tokens],
        beta=inputs.beta[tokens],
        cumulative_sequence_length=int32(0, tokens.stop - tokens.start),
        initial_state=state,
    )


def pool_of(states: Tensor, slots: int, rows: Sequence[int]) -> Tensor:
    """Return a pool of two banks that holds states [B, *row] in those rows, and else NaN."""
    pool = states.new_full((2, slots, *states.shape[1:]), torch.nan)
    pool.flatten(0, 1)[list(rows)] = states
    return pool


def in_pool(states: Tensor, slots: int, read: Sequence[int], write: Sequence[int]) -> StatePool:
    """Put states [B, *row] where `read` says; a row read by several has the last one's state."""
    return StatePool(pool_of(states, slots, read), int32(*read), int32(*write))


def expect_bits(backend: StateBackend, actual: Tensor, expected: Tensor) -> None:
    """Compare bit by bit what the compiled backend promises so.

    The oracle is made of torch's functions, in which a number's place in a tensor decides between
    a vector and a scalar exponential.
    """
    if backend.name == "reference":
        expect_close(actual, expected)
    else:
        assert torch.equal(actual, expected)
