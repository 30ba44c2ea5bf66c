"""Draw under top-k and top-p.

Both keep a prefix of one order of a row's tokens: by falling logit, equal logits by rising id.
The order, hence the result, is a function of the row alone; how many of its first tokens are
looked at is not, and therefore may depend on the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pa_kernels.sampling.draw import Rows, invert, weights

_FIRST_WIDTH = 256
"""Tokens looked at first for top-p alone: a nucleus of a trained model is seldom larger."""

_WORTH = 32
"""A search for the first tokens pays when they are at most this part of the vocabulary."""

_SLACK = 32
"""Tokens looked at beyond top-k, so that a tie at the k-th rarely reaches the edge."""


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The first tokens of each row in the order: value [r, w], token [r, w] int64."""

    value: Tensor
    token: Tensor

    @property
    def width(self) -> int:
        """Tokens of each row (w)."""
        return self.value.shape[1]


def draw_limited(rows: Rows) -> Tensor:
    """Draw from each row's kept tokens: [r] int64."""
    vocabulary = rows.logits.shape[1]
    needs_mass = (rows.top_k == vocabulary).squeeze(1)
    if rows.logits.device.type != "cpu":
        # Looking whether a prefix sufficed would wait for the device.
        return _draw(rows, _whole_order(rows.logits), _total(rows, needs_mass))[0]
    total = _total(rows, needs_mass)
    wanted = rows.top_k.where(rows.top_k < vocabulary, _FIRST_WIDTH)
    width = int(wanted.max()) + _SLACK
    if _WORTH * width > vocabulary:
        return _draw(rows, _whole_order(rows.logits), total)[0]
    tokens, is_settled = _draw(rows, _first(rows.logits, width), total)
    pending = (~is_settled).nonzero().flatten()
    if len(pending):
        part = rows.select(pending)
        tokens[pending] = _draw(part, _whole_order(part.logits), total[pending])[0]
    return tokens


def _total(rows: Rows, needs_mass: Tensor) -> Tensor:
    """Return [r, 1] float64: the weight of a whole row where top-k does not bound it, else 0."""
    total = rows.highest.new_zeros(rows.highest.shape)
    if rows.logits.device.type != "cpu":
        return _mass(rows)
    if bool(needs_mass.all()):
        return _mass(rows)
    if bool(needs_mass.any()):
        total[needs_mass] = _mass(rows.select(needs_mass))
    return total


def _mass(rows: Rows) -> Tensor:
    # A running sum: how a plain sum is split over threads depends on the number of rows.
    return weights(rows.logits, rows).cumsum(dim=1)[:, -1:]


def _draw(rows: Rows, prefix: _Prefix, row_total: Tensor) -> tuple[Tensor, Tensor]:
    """Return tokens [r] and whether the prefix sufficed to know them [r]."""
    cumulative = weights(prefix.value, rows).cumsum(dim=1)
    is_bounded = rows.top_k < rows.logits.shape[1]
    last_of_k = rows.top_k.clamp(max=prefix.width) - 1
    mass = torch.where(is_bounded, cumulative.gather(1, last_of_k), row_total)
    # The smallest prefix whose mass reaches p: entries below p, and one more.
    nucleus = torch.searchsorted(cumulative, rows.top_p * mass)
    kept_last = torch.where(rows.top_p < 1, torch.minimum(nucleus, last_of_k), last_of_k)
    is_inside = kept_last < prefix.width
    kept_last = kept_last.clamp(max=prefix.width - 1)
    total = cumulative.gather(1, kept_last)
    index = invert(cumulative, total, rows.uniform).clamp_(max=prefix.width - 1)
    token = prefix.token.gather(1, index)
    if prefix.width == rows.logits.shape[1]:
        return token.squeeze(1), torch.ones_like(is_inside).squeeze(1)
    # A tie across the edge of the prefix could hide a token with a lower id.
    lowest = prefix.value.gather(1, kept_last)
    is_settled = (lowest > prefix.value[:, -1:]) | (lowest == -torch.inf)
    is_settled &= is_inside & (is_bounded | (nucleus < prefix.width))
    return token.squeeze(1), (is_settled | ~torch.isfinite(rows.highest)).squeeze(1)


def _first(logits: Tensor, width: int) -> _Prefix:
    """Return the largest `width` logits in the order; which of those equal to the last is open."""
    value, token = logits.topk(width, dim=1, sorted=False)
    token, by_token = token.sort(dim=1)
    value, by_value = value.gather(1, by_token).sort(dim=1, descending=True, stable=True)
    return _Prefix(value, token.gather(1, by_value))


def _whole_order(logits: Tensor) -> _Prefix:
    if logits.device.type == "cpu":
        return _whole_order_on_host(logits)
    value, token = logits.sort(dim=1, descending=True, stable=True)
    return _Prefix(value, token)


def _whole_order_on_host(logits: Tensor) -> _Prefix:
    """Sort unique integer keys (logit, id): numpy does that ten times faster than a stable sort."""
    # Adding 0 joins the two zeros; flipping the lower bits of negative floats orders them.
    bits = (logits.float() + 0.0).view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    ids = torch.arange(logits.shape[1])
    keys = ((~ascending).long() << 32) | ids
    token = torch.from_numpy(np.sort(keys.numpy(), axis=1)) & 0xFFFFFFFF
    return _Prefix(logits.gather(1, token), token)
