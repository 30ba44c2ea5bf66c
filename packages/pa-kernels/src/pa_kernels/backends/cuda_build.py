"""Whether the CUDA kernels can run here; safe to import where they were not built."""

from __future__ import annotations

import importlib.util

import torch


def cuda_unavailable() -> str | None:
    """Return why the CUDA kernels cannot run here, None if they can."""
    if importlib.util.find_spec("pa_kernels._cuda") is None:
        return "cuda: not built (no CUDA compiler was found, or PA_CUDA=OFF)"
    if not torch.cuda.is_available():
        return "cuda: no CUDA device (torch.cuda.is_available() is false)"
    return None
