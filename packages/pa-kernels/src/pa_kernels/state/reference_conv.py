"""The oracle of the causal convolution, in readable torch."""

from __future__ import annotations

import torch
from torch import Tensor

from pa_kernels.state.inputs import CausalConvInputs, StateOutputs
from pa_kernels.state.rows import check_values, flatten_banks, keep_states, starting_states


def run_causal_conv(
    inputs: CausalConvInputs, activation: str, compute_dtype: torch.dtype = torch.float32
) -> StateOutputs:
    """Compute a checked call (contract section 18).

    output[t, c] = activation(bias[c] + sum over j of weight[c, j] * x[t - (K-1) + j, c]), where x
    goes back into the state before the sequence's first token. The output comes unrounded, in
    compute_dtype; states are copies of inputs. The pool is updated in place.

    Raises InputUnusable for bad lengths or row numbers, before anything has changed.
    """
    x = inputs.input
    boundaries = inputs.cumulative_sequence_length
    pool = flatten_banks(inputs.pool, row_axes=2)
    check_values(boundaries, x.shape[0], pool)
    channels, taps = x.shape[1], inputs.weight.shape[-1]
    rows = boundaries.shape[0] - 1
    states = starting_states(inputs.initial_state, pool, x.new_zeros(rows, channels, taps - 1))

    output = torch.empty(x.shape, dtype=compute_dtype, device=x.device)
    ends = boundaries.tolist()
    for row in range(rows):
        tokens = slice(ends[row], ends[row + 1])
        if tokens.start == tokens.stop:
            continue  # a window has K inputs, of which one at least is new
        # [C, K-1 + tokens]: the inputs before the call, then those of the call.
        history = torch.cat((states[row], x[tokens].T), dim=1)
        output[tokens] = _convolve(history.to(compute_dtype), inputs, activation).T
        states[row] = history[:, history.shape[1] - (taps - 1) :]
    if pool is None:
        return StateOutputs(output, states)
    keep_states(pool, states)
    return StateOutputs(output)


def _convolve(history: Tensor, inputs: CausalConvInputs, activation: str) -> Tensor:
    """history: [C, K-1 + tokens]. Returns [C, tokens]."""
    weight = inputs.weight.flatten(1).to(history.dtype)
    windows = history.unfold(1, weight.shape[1], 1)
    result = (windows * weight[:, None, :]).sum(-1)
    if inputs.bias is not None:
        result = result + inputs.bias.to(history.dtype)[:, None]
    return result if activation == "none" else torch.nn.functional.silu(result)
