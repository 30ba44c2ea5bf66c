"""The oracle: the complete contract in readable torch, computing in float32 or float64."""

from pa_kernels.reference.operator import run

__all__ = ["run"]
