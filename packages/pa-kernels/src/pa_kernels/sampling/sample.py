"""Choose the next token of every row of a batch."""

from __future__ import annotations

import numpy as np
import torch
from pa_spec import BoolArray, IndexArray, InputUnusable, SamplingBatch
from torch import Tensor

from pa_kernels.sampling.draw import Rows, draw_unlimited
from pa_kernels.sampling.edits import edit, has_edits
from pa_kernels.sampling.limit import draw_limited

_CHUNK_ELEMENTS = 1 << 20
"""Logits handled at once: their 8 MB in float64 stay in a last-level cache."""


def sample_tokens(logits: Tensor, batch: SamplingBatch) -> tuple[Tensor, Tensor | None]:
    """Choose one token of each row; logits may be overwritten.

    logits: [S, V] float32, float16 or bfloat16. Order: bans, repetition penalty, temperature,
    top-k, top-p, then inversion of the row's distribution at its `uniform`. Rows with temperature
    0, and all rows when it is None, take their largest logit, among equals the lowest id. Among
    equal logits top-k and top-p keep lower ids first: exactly k tokens, and the fewest whose
    mass reaches p of what top-k left. Nothing of a row's result depends on the other rows.

    Returns tokens [S] int32 and faulty [S] bool: rows that hold a NaN or +inf, or no finite logit
    after the bans; their token is 0. faulty is None when a host batch has no such row; on a device
    it is always a tensor, because looking would wait for the device.

    Raises InputUnusable for a column that another one needs, or of another length than S.
    """
    # Tensors of an inference context may be overwritten in such a context only.
    with torch.inference_mode() if logits.is_inference() else torch.no_grad():
        return _sample(logits, batch)


def _sample(logits: Tensor, batch: SamplingBatch) -> tuple[Tensor, Tensor | None]:
    _check(logits, batch)
    is_faulty = None
    if has_edits(batch):
        # Before the edits: a ban must not hide a NaN.
        is_faulty = ~torch.isfinite(logits.amax(dim=1))
        logits = logits.float()
        edit(logits, batch)
    highest, tokens = logits.max(dim=1)
    is_faulty = (
        ~torch.isfinite(highest) if is_faulty is None else is_faulty | ~torch.isfinite(highest)
    )
    if batch.temperature is not None:
        _draw_rows(logits, batch, highest, tokens)
    if logits.device.type == "cpu" and not bool(is_faulty.any()):
        return tokens.int(), None
    return tokens.masked_fill(is_faulty, 0).int(), is_faulty


def _draw_rows(logits: Tensor, batch: SamplingBatch, highest: Tensor, tokens: Tensor) -> None:
    """Overwrite the tokens of the rows that sample."""
    assert batch.temperature is not None
    vocabulary = logits.shape[1]
    samples = batch.temperature > 0
    is_limited: BoolArray = np.zeros(len(samples), dtype=np.bool_)
    if batch.top_k is not None:
        is_limited |= (batch.top_k > 0) & (batch.top_k < vocabulary)
    if batch.top_p is not None:
        is_limited |= batch.top_p < 1
    for chosen, draw in (
        (np.flatnonzero(samples & ~is_limited), draw_unlimited),
        (np.flatnonzero(samples & is_limited), draw_limited),
    ):
        chunk = max(1, _CHUNK_ELEMENTS // vocabulary)
        for first in range(0, len(chosen), chunk):
            part = chosen[first : first + chunk]
            rows = _rows(logits, highest, batch, part)
            tokens[torch.from_numpy(part).to(logits.device)] = draw(rows)


def _rows(logits: Tensor, highest: Tensor, batch: SamplingBatch, chosen: IndexArray) -> Rows:
    assert batch.temperature is not None
    assert batch.uniform is not None
    vocabulary = logits.shape[1]
    top_k = np.full(len(chosen), vocabulary, dtype=np.int64)
    if batch.top_k is not None:
        asked = batch.top_k[chosen]
        top_k = np.where((asked > 0) & (asked < vocabulary), asked, vocabulary).astype(np.int64)
    top_p = np.ones(len(chosen)) if batch.top_p is None else batch.top_p[chosen]

    def column(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        return torch.from_numpy(values)[:, None].to(logits.device)

    index = torch.from_numpy(chosen).to(logits.device)
    return Rows(
        logits=logits[index],
        highest=highest[index].double()[:, None],
        temperature=column(batch.temperature[chosen].astype(np.float64)),
        top_k=column(top_k),
        top_p=column(top_p.astype(np.float64)),
        uniform=column(batch.uniform[chosen]),
    )


def _check(logits: Tensor, batch: SamplingBatch) -> None:
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    if logits.ndim != 2 or not logits.shape[1] or logits.dtype not in kinds:
        found = f"{logits.dtype} {list(logits.shape)}"
        raise InputUnusable("logits", found, "[rows, vocabulary] float32, float16 or bfloat16")
    for name in ("temperature", "top_k", "top_p", "uniform", "penalty"):
        column = getattr(batch, name)
        if column is not None and len(column) != logits.shape[0]:
            problem = f"{len(column)} values for {logits.shape[0]} rows"
            raise InputUnusable(name, problem, "one value for each row of the logits")
    samples = batch.temperature is not None and bool((batch.temperature > 0).any())
    if samples and batch.uniform is None:
        raise InputUnusable("uniform", "missing", "a number for each row beside a temperature")
