"""Draw one token of each row from its distribution, by inversion."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that sample, with what each of them asks for.

    logits: [r, V] float. highest: [r, 1] float64, their largest logit. temperature: [r, 1] float64
    above 0. top_k: [r, 1] int64 in [1, V], V = no limit. top_p: [r, 1] float64, 1 and above = no
    limit. uniform: [r, 1] float64.
    """

    logits: Tensor
    highest: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    uniform: Tensor

    def select(self, chosen: Tensor) -> Rows:
        """Return some of the rows; chosen: [c] int64 or bool [r]."""
        return Rows(
            self.logits[chosen],
            self.highest[chosen],
            self.temperature[chosen],
            self.top_k[chosen],
            self.top_p[chosen],
            self.uniform[chosen],
        )


def weights(values: Tensor, rows: Rows) -> Tensor:
    """Return unnormalized probabilities [r, n] float64 of logits [r, n]; the highest has 1."""
    # float64, so that a weight's error moves a boundary of the CDF by 1e-16, not by 1e-7.
    shifted = values.double().sub_(rows.highest).div_(rows.temperature)
    return shifted.exp_()


def invert(cumulative: Tensor, total: Tensor, uniform: Tensor) -> Tensor:
    """Return the first index whose cumulative weight exceeds uniform * total: [r, 1] int64.

    cumulative: [r, n] float64, non-decreasing. total: [r, 1], one of its entries. An index with
    weight 0 is never returned, nor one behind the entry that reaches total.
    """
    index = torch.searchsorted(cumulative, uniform * total, right=True)
    # uniform * total can round up to total; the last weight above 0 is where total is reached.
    last = torch.searchsorted(cumulative, total)
    return torch.minimum(index, last)


def draw_unlimited(rows: Rows) -> Tensor:
    """Draw from whole rows, in the order of token ids: [r] int64."""
    cumulative = weights(rows.logits, rows).cumsum(dim=1)
    index = invert(cumulative, cumulative[:, -1:].contiguous(), rows.uniform)
    return index.squeeze(1).clamp_(max=rows.logits.shape[1] - 1)
