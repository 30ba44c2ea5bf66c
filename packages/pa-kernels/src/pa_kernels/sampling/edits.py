"""Changes to single logits before any choice: bans and repetition penalties."""

from __future__ import annotations

import numpy as np
import torch
from pa_spec import InputUnusable, Int32Array, SamplingBatch
from torch import Tensor


def has_edits(batch: SamplingBatch) -> bool:
    """Whether the batch changes any logit."""
    return batch.banned_row is not None or batch.penalized_row is not None


def edit(logits: Tensor, batch: SamplingBatch) -> None:
    """Ban and penalize in place; logits: [S, V] float32.

    A penalty divides positive logits and multiplies negative ones. Pairs may repeat: every copy
    of a pair writes the same value.
    """
    banned = _pairs(logits, batch.banned_row, batch.banned_token, "banned")
    if banned is not None:
        logits[banned] = -torch.inf
    penalized = _pairs(logits, batch.penalized_row, batch.penalized_token, "penalized")
    if penalized is None:
        return
    if batch.penalty is None:
        raise InputUnusable("penalty", "missing", "a value for each row beside penalized_row")
    # astype copies: the caller's columns may be read-only, of which torch warns.
    penalty = torch.from_numpy(batch.penalty.astype(np.float32)).to(logits.device)[penalized[0]]
    before = logits[penalized]
    logits[penalized] = torch.where(before > 0, before / penalty, before * penalty)


def _pairs(
    logits: Tensor, row: Int32Array | None, token: Int32Array | None, name: str
) -> tuple[Tensor, Tensor] | None:
    if row is None and token is None:
        return None
    if row is None or token is None or len(row) != len(token):
        raise InputUnusable(f"{name}_row, {name}_token", "differ in length", "pairs")
    return (
        torch.from_numpy(row.astype(np.int64)).to(logits.device),
        torch.from_numpy(token.astype(np.int64)).to(logits.device),
    )
