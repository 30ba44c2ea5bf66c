"""From logits to tokens: stateless, a row's result depends on that row alone."""

from pa_kernels.sampling.sample import sample_tokens
from pa_kernels.sampling.stream import uniform_from_counter

__all__ = ["sample_tokens", "uniform_from_counter"]
