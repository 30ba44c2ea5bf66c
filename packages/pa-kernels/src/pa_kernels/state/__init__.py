"""Operators of hybrid models: state of a fixed size for each sequence, packed ragged rows."""

from pa_kernels.state import library
from pa_kernels.state.conv import varlen_causal_conv
from pa_kernels.state.delta import gated_delta_net
from pa_kernels.state.inputs import (
    DELTA_CHUNK_TOKENS,
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StateOutputs,
    StatePool,
)

__all__ = [
    "DELTA_CHUNK_TOKENS",
    "CausalConvInputs",
    "GatedDeltaNetAttributes",
    "GatedDeltaNetInputs",
    "StateOutputs",
    "StatePool",
    "gated_delta_net",
    "library",
    "varlen_causal_conv",
]
