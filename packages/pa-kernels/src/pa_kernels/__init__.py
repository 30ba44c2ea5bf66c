"""PagedAttention: one operator, several backends."""

from pa_kernels import library, reference
from pa_kernels._version import __version__
from pa_kernels.contract import IMPLEMENTS_CONTRACT
from pa_kernels.explain import BackendVerdict, explain
from pa_kernels.prepare import PreparedCall, paged_attention, prepare
from pa_kernels.sampling import sample_tokens, uniform_from_counter
from pa_kernels.signature import signature_of

__all__ = [
    "IMPLEMENTS_CONTRACT",
    "BackendVerdict",
    "PreparedCall",
    "__version__",
    "explain",
    "library",
    "paged_attention",
    "prepare",
    "reference",
    "sample_tokens",
    "signature_of",
    "uniform_from_counter",
]
