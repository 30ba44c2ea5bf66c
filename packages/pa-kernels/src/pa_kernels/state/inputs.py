"""What the state operators take and return (contract section 18)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

DELTA_CHUNK_TOKENS = 64
"""Tokens that the compiled delta rule takes together, counted from the first one of a call."""


@dataclass(frozen=True, slots=True)
class StatePool:
    """States of many sequences in one tensor, and which of them the rows of a call use.

    states: [2, slots, *row] or [slots, *row], contiguous, written in place and therefore without
    gradients. A row of the pool is numbered over the leading axes: bank * slots + slot.
    read_rows: [B] int32, where each sequence's state is; -1 = it starts from zeros.
    write_rows: [B] int32, where its new state goes; -1 = nowhere. No row is written twice.

    Every state is read before any is written: a sequence may be updated in place, and may write
    the row that another one reads.
    """

    states: Tensor
    read_rows: Tensor
    write_rows: Tensor


@dataclass(frozen=True, slots=True)
class CausalConvInputs:
    """A causal convolution of each channel, over packed sequences.

    input: [T, C] float32 | bfloat16 | float16, rows may be strided.
    weight: [C, 1, K] or [C, K]; the last tap belongs to the token itself.
    cumulative_sequence_length: [B+1] int32. bias: [C].
    initial_state: [B, C, K-1], the last K-1 inputs before the call, the latest one last.
    pool: rows [C, K-1], instead of initial_state. Without either, sequences start from zeros.

    Everything but lengths and row numbers has the element type of `input`.
    """

    input: Tensor
    weight: Tensor
    cumulative_sequence_length: Tensor
    bias: Tensor | None = None
    initial_state: Tensor | None = None
    pool: StatePool | None = None


@dataclass(frozen=True, slots=True)
class GatedDeltaNetInputs:
    """The gated delta rule over packed sequences.

    query, key: [T, Hk, Dk], value: [T, Hv, Dv] float32 | bfloat16 | float16, tokens may be
    strided; Hv is a multiple of Hk, and a key head serves Hv / Hk value heads that follow each
    other. cumulative_sequence_length: [B+1] int32.
    decay: [T, Hv] natural logarithm of the factor that the state takes; with a_log and dt_bias
    [Hv] it is instead the number x that gives it: -exp(a_log) * softplus(x + dt_bias).
    beta: [T, Hv] share of the error that is corrected. decay, beta, a_log and dt_bias are float32
    or of the element type of `query`.
    initial_state: [B, Hv, Dv, Dk] float32. pool: rows [Hv, Dv, Dk] float32, instead of it.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    cumulative_sequence_length: Tensor
    decay: Tensor
    beta: Tensor
    initial_state: Tensor | None = None
    a_log: Tensor | None = None
    dt_bias: Tensor | None = None
    pool: StatePool | None = None


@dataclass(frozen=True, slots=True)
class GatedDeltaNetAttributes:
    """Constants of the gated delta rule.

    scale: factor of the queries, 0 = 1 / sqrt(Dk). qk_l2norm: divide queries and keys by
    sqrt(sum of squares + l2norm_epsilon) first; without it the caller gives keys of length 1.
    """

    scale: float = 0.0
    qk_l2norm: bool = False
    l2norm_epsilon: float = 1e-6


@dataclass(frozen=True, slots=True)
class StateOutputs:
    """Results of a state operator.

    output: as wide as the input, or [T, Hv, Dv], in its element type. final_state: like
    initial_state, one for each sequence; None where a pool took them.
    """

    output: Tensor
    final_state: Tensor | None = None
