"""Rotary position embedding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RotaryPairs:
    """Which channels rotate together.

    cosine, sine: [T, R/2] of each token's position. first: first rotated channel. interleaved:
    pairs are (0, 1), (2, 3), …; otherwise channel i goes with i + R/2.
    """

    cosine: Tensor
    sine: Tensor
    first: int
    interleaved: bool


def rotate(heads: Tensor, pairs: RotaryPairs) -> Tensor:
    """Return heads with R channels rotated and the others copied.

    heads: [T, any number of heads, D].
    """
    half = pairs.cosine.shape[1]
    last = pairs.first + 2 * half
    rotated = heads[..., pairs.first : last]
    cosine, sine = pairs.cosine[:, None, :], pairs.sine[:, None, :]
    if pairs.interleaved:
        left, right = rotated[..., 0::2], rotated[..., 1::2]
    else:
        left, right = rotated[..., :half], rotated[..., half:]
    turned = (left * cosine - right * sine, right * cosine + left * sine)
    joined = torch.stack(turned, dim=-1).flatten(-2) if pairs.interleaved else torch.cat(turned, -1)
    return torch.cat((heads[..., : pairs.first], joined, heads[..., last:]), dim=-1)
