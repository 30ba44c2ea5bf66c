"""PagedAttention: one operator, several backends."""

from pa_kernels import library, reference
from pa_kernels._version import __version__
from pa_kernels.contract import IMPLEMENTS_CONTRACT
from pa_kernels.explain import BackendVerdict, explain
from pa_kernels.prepare import PreparedCall, paged_attention, prepare
from pa_kernels.sampling import sample_tokens, uniform_from_counter
from pa_kernels.signature import signature_of
from pa_kernels.state import (
    DELTA_CHUNK_TOKENS,
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StateOutputs,
    StatePool,
    gated_delta_net,
    varlen_causal_conv,
)

__all__ = [
    "DELTA_CHUNK_TOKENS",
    "IMPLEMENTS_CONTRACT",
    "BackendVerdict",
    "CausalConvInputs",
    "GatedDeltaNetAttributes",
    "GatedDeltaNetInputs",
    "PreparedCall",
    "StateOutputs",
    "StatePool",
    "__version__",
    "explain",
    "gated_delta_net",
    "library",
    "paged_attention",
    "prepare",
    "reference",
    "sample_tokens",
    "signature_of",
    "uniform_from_counter",
    "varlen_causal_conv",
]
