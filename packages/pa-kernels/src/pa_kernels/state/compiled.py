"""The state operators in C++, for tensors in host memory."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TypeVar, final

import torch
from pa_spec import InputUnusable
from torch import Tensor
from torch.autograd.graph import increment_version

from pa_kernels import _cpu
from pa_kernels.state.inputs import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StateOutputs,
    StatePool,
)
from pa_kernels.state.rows import check_values, flatten_banks

_DTYPES = {
    torch.float32: _cpu.Dtype.FLOAT32,
    torch.bfloat16: _cpu.Dtype.BFLOAT16,
    torch.float16: _cpu.Dtype.FLOAT16,
}
_NO_NORM = -1.0
_Inputs = TypeVar("_Inputs", CausalConvInputs, GatedDeltaNetInputs)


@final
class CompiledStates:
    """Both operators in C++; refuses bad lengths and row numbers before it writes."""

    name = "cpu"

    def __init__(self, unit: str = "") -> None:
        self._units = {dtype: _cpu.StateUnit(code, unit) for dtype, code in _DTYPES.items()}

    def unsupported(self, device: torch.device) -> str | None:
        """Refuse tensors outside host memory."""
        return None if device.type == "cpu" else f"device {device}: works in host memory"

    def causal_conv(self, inputs: CausalConvInputs, activation: str) -> StateOutputs:
        """Convolve; the pool is updated in place."""
        inputs = _without_negation(inputs)
        x = inputs.input
        tokens, channels = x.shape
        taps = inputs.weight.shape[-1]
        rows = inputs.cumulative_sequence_length.shape[0] - 1
        output = torch.empty(x.shape, dtype=x.dtype)
        pool, final = inputs.pool, None
        if pool is None:
            final = torch.empty((rows, channels, taps - 1), dtype=x.dtype)
        pool_rows = _num_rows(pool, rows, channels * (taps - 1))
        is_silu = int(activation != "none")
        accepted = self._units[x.dtype].causal_conv(
            (rows, tokens, pool_rows, channels, taps, _stride(x), is_silu),
            (
                *_state_addresses(inputs, final),
                x.data_ptr(),
                inputs.weight.data_ptr(),
                _address(inputs.bias),
                output.data_ptr(),
            ),
            torch.get_num_threads(),
        )
        if not accepted:
            _refuse(inputs.cumulative_sequence_length, tokens, flatten_banks(pool, row_axes=2))
        _tell_written(pool)
        return StateOutputs(output, final)

    def gated_delta_net(
        self, inputs: GatedDeltaNetInputs, attributes: GatedDeltaNetAttributes
    ) -> StateOutputs:
        """Apply the rule in chunks, or token by token where there are few; updates the pool."""
        inputs = _without_negation(inputs)
        query, key, value = inputs.query, inputs.key, inputs.value
        tokens, key_heads, key_size = key.shape
        heads, value_size = value.shape[1:]
        rows = inputs.cumulative_sequence_length.shape[0] - 1
        output = torch.empty(value.shape, dtype=value.dtype)
        pool, final = inputs.pool, None
        if pool is None:
            final = torch.empty((rows, heads, value_size, key_size), dtype=torch.float32)
        pool_rows = _num_rows(pool, rows, heads * value_size * key_size)
        # Held by this list for as long as the call needs their addresses.
        gates = [_float32(gate) for gate in (inputs.decay, inputs.beta)]
        gates += [_float32(gate) for gate in (inputs.a_log, inputs.dt_bias)]
        sizes = (rows, tokens, pool_rows, key_heads, heads, key_size, value_size)
        epsilon = attributes.l2norm_epsilon if attributes.qk_l2norm else _NO_NORM
        accepted = self._units[query.dtype].gated_delta(
            (*sizes, _stride(query), _stride(key), _stride(value)),
            (
                *_state_addresses(inputs, final),
                query.data_ptr(),
                key.data_ptr(),
                value.data_ptr(),
                *(_address(gate) for gate in gates),
                output.data_ptr(),
            ),
            (attributes.scale or 1.0 / math.sqrt(key_size), epsilon),
            torch.get_num_threads(),
        )
        if not accepted:
            _refuse(inputs.cumulative_sequence_length, tokens, flatten_banks(pool, row_axes=3))
        _tell_written(pool)
        return StateOutputs(output, final)


def _without_negation(inputs: _Inputs) -> _Inputs:
    """Write out tensors whose memory holds the opposite numbers, as torch._neg_view gives them."""
    pool = inputs.pool
    if pool is not None and (pool.read_rows.is_neg() or pool.write_rows.is_neg()):
        rows = (pool.read_rows.resolve_neg(), pool.write_rows.resolve_neg())
        inputs = replace(inputs, pool=StatePool(pool.states, *rows))
    given = ((each.name, getattr(inputs, each.name)) for each in fields(inputs))
    negated = {
        name: tensor.resolve_neg()
        for name, tensor in given
        if isinstance(tensor, Tensor) and tensor.is_neg()
    }
    return replace(inputs, **negated) if negated else inputs  # type: ignore[arg-type]


def _tell_written(pool: StatePool | None) -> None:
    # As an in-place operator of torch: a backward that saved the pool must find it changed.
    if pool is not None:
        increment_version(pool.states)


def _state_addresses(
    inputs: CausalConvInputs | GatedDeltaNetInputs, final: Tensor | None
) -> tuple[int, int, int, int, int]:
    """Addresses of lengths, states to read and to write, and the rows of both."""
    boundaries = inputs.cumulative_sequence_length.data_ptr()
    pool = inputs.pool
    if pool is None:
        return boundaries, _address(inputs.initial_state), _address(final), 0, 0
    states = pool.states.data_ptr()
    return boundaries, states, states, pool.read_rows.data_ptr(), pool.write_rows.data_ptr()


def _num_rows(pool: StatePool | None, rows: int, row_elements: int) -> int:
    if pool is None:
        return rows
    # A row without elements (one tap) is nowhere, and any of them will do.
    return (
        pool.states.numel() // row_elements if row_elements else math.prod(pool.states.shape[:-2])
    )


def _stride(tensor: Tensor) -> int:
    # The stride of an axis with one entry means nothing.
    return tensor.stride(0) if tensor.shape[0] > 1 else 0


def _float32(gate: Tensor | None) -> Tensor | None:
    return None if gate is None else gate.to(torch.float32).contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _refuse(boundaries: Tensor, tokens: int, pool: StatePool | None) -> None:
    check_values(boundaries, tokens, pool)
    changed = "lengths and row numbers that stay as they are during a call"
    raise InputUnusable("cumulative_sequence_length", "was bad when the call read it", changed)
