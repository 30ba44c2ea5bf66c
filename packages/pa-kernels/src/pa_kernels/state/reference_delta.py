"""The oracle of the gated delta rule, in readable torch: one token after the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pa_kernels.state.inputs import GatedDeltaNetAttributes, GatedDeltaNetInputs, StateOutputs
from pa_kernels.state.rows import check_values, flatten_banks, keep_states, starting_states


def run_gated_delta_net(
    inputs: GatedDeltaNetInputs,
    attributes: GatedDeltaNetAttributes,
    compute_dtype: torch.dtype = torch.float32,
) -> StateOutputs:
    """Compute a checked call (contract section 18).

    The output comes unrounded, in compute_dtype, as do final states. The pool is updated in place,
    in float32.

    Raises InputUnusable for bad lengths or row numbers, before anything has changed.
    """
    value = inputs.value
    boundaries = inputs.cumulative_sequence_length
    pool = flatten_banks(inputs.pool, row_axes=3)
    check_values(boundaries, value.shape[0], pool)
    heads, value_size = value.shape[1:]
    rows, key_size = boundaries.shape[0] - 1, inputs.key.shape[2]
    zeros = value.new_zeros(rows, heads, value_size, key_size, dtype=compute_dtype)
    states = starting_states(inputs.initial_state, pool, zeros)

    query, key = _queries_and_keys(inputs, attributes, compute_dtype)
    factor = log_decay(inputs, compute_dtype).exp()
    beta, value = inputs.beta.to(compute_dtype), value.to(compute_dtype)
    output = torch.empty_like(value, memory_format=torch.contiguous_format)
    ends = boundaries.tolist()
    for row in range(rows):
        state = states[row]
        for t in range(ends[row], ends[row + 1]):
            # S = exp(g) S + k (beta (v - exp(g) S^T k))^T, stored as its transpose [Hv, Dv, Dk].
            state = state * factor[t][:, None, None]
            error = value[t] - _read(state, key[t])
            state = state + (beta[t][:, None] * error)[:, :, None] * key[t][:, None, :]
            output[t] = _read(state, query[t])
        states[row] = state
    if pool is None:
        return StateOutputs(output, states)
    keep_states(pool, states)
    return StateOutputs(output)


def log_decay(inputs: GatedDeltaNetInputs, dtype: torch.dtype) -> Tensor:
    """Return the logarithm of the state's factor, [T, Hv]."""
    decay = inputs.decay.to(dtype)
    if inputs.a_log is None or inputs.dt_bias is None:
        return decay
    rate = inputs.a_log.to(dtype).exp()
    return -rate * torch.nn.functional.softplus(decay + inputs.dt_bias.to(dtype))


def _queries_and_keys(
    inputs: GatedDeltaNetInputs, attributes: GatedDeltaNetAttributes, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Normalise, scale the queries, and give every value head its own copy: [T, Hv, Dk]."""
    query, key = inputs.query.to(dtype), inputs.key.to(dtype)
    if attributes.qk_l2norm:
        query, key = (
            x * (x.square().sum(-1, keepdim=True) + attributes.l2norm_epsilon).rsqrt()
            for x in (query, key)
        )
    query = query * (attributes.scale or 1.0 / math.sqrt(key.shape[2]))
    group = inputs.value.shape[1] // key.shape[1]
    return query.repeat_interleave(group, dim=1), key.repeat_interleave(group, dim=1)


def _read(state: Tensor, vector: Tensor) -> Tensor:
    """state: [Hv, Dv, Dk]. vector: [Hv, Dk]. Returns [Hv, Dv]."""
    return (state * vector[:, None, :]).sum(-1)
