"""Rotary position embedding: the frequencies of a checkpoint as tensors."""

from __future__ import annotations

import torch
from pa_spec.checker import RopeMeaning, inverse_frequencies
from torch import Tensor


def depends_on_length(rope: RopeMeaning) -> bool:
    """Whether the frequencies change with the length of the sequence."""
    if rope.kind == "longrope":
        values = dict(rope.parameters)
        return values["short_factor"] != values["long_factor"]
    return rope.kind == "dynamic"


def rotary_frequencies(rope: RopeMeaning, total_tokens: int = 1) -> tuple[Tensor, float]:
    """Compute the angle that one position adds to each channel pair, and the attention factor.

    total_tokens: length of the sequence, which dynamic and longrope ask for.

    Returns [rotary_dim/2] float32, and the multiplier of cos and sin.
    """
    frequencies, factor = inverse_frequencies(rope, total_tokens)
    return torch.from_numpy(frequencies), factor


def rotary_tables(rope: RopeMeaning, positions: int) -> tuple[Tensor, Tensor]:
    """Tabulate cos and sin of every position, each [positions, rotary_dim/2] float32."""
    frequencies, factor = rotary_frequencies(rope)
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
    return angles.cos().mul_(factor), angles.sin().mul_(factor)
