"""A decoder of one layer in plain torch, and what it must answer, computed without any cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from pa_spec import (
    DecoderConfig,
    DecoderState,
    ElementType,
    GroupKind,
    StateGroup,
    StateManifest,
    StepInputs,
)
from torch import Tensor

VOCABULARY, HEAD, CONTEXT = 61, 16, 512
_GROUP = StateGroup(GroupKind.PAGED_KV, (0,), (1, HEAD), ElementType.FLOAT32)


def _weights() -> tuple[Tensor, Tensor, Tensor]:
    """Return embedding [V, D], the position's part [context, D] and the output [D, V]."""
    generator = torch.Generator().manual_seed(4)
    sizes = ((VOCABULARY, HEAD), (CONTEXT, HEAD), (HEAD, VOCABULARY))
    embedding, place, output = (torch.randn(size, generator=generator) for size in sizes)
    return embedding, place, output


class TinyDecoder:
    """Attends with each token's embedding plus place, over keys and values that are the same.

    Every input of every step is kept in `seen`; `before` is called first in each `forward`.
    """

    def __init__(
        self, *, chosen_rows: bool = True, positions: bool = False, device: str = "cpu"
    ) -> None:
        self.manifest = StateManifest((_GROUP,))
        self.config = DecoderConfig(
            VOCABULARY,
            CONTEXT,
            logits_for_chosen_rows=chosen_rows,
            wants_positions=positions,
            device=device,
        )
        embedding, place, output = _weights()
        self.weights = (embedding.to(device), place.to(device), output.to(device))
        self.seen: list[StepInputs[Tensor]] = []
        self.errors: list[Exception | None] = []
        self.broken_token = -1

    def bind(self, state: DecoderState[Tensor]) -> None:
        """Take the layer's caches."""
        self.layer = state.paged[0]
        self.block_size = state.block_size

    def forward(self, inputs: StepInputs[Tensor]) -> Tensor:
        """Run the step, or raise the next of `errors`."""
        copies = {
            name: value.clone()
            for name in StepInputs.__slots__
            if (value := getattr(inputs, name)) is not None
        }
        self.seen.append(replace(inputs, **copies))
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        rows = []
        starts = inputs.cumulative_sequence_length.tolist()
        for row, (begin, end) in enumerate(pairwise(starts)):
            past = int(inputs.past_seqlens[row])
            rows.append(self._row(inputs.input_ids[begin:end], past, inputs.block_table[row]))
        logits = torch.cat(rows)
        return logits[inputs.logits_rows] if self.config.logits_for_chosen_rows else logits

    def _row(self, ids: Tensor, past: int, table: Tensor) -> Tensor:
        embedding, place, output = self.weights
        total = past + len(ids)
        position = torch.arange(past, total, device=ids.device)
        query = embedding[ids] + place[position]  # [tokens, D]
        every = torch.arange(total, device=ids.device)
        block, offset = table[every // self.block_size].long(), every % self.block_size
        assert self.layer.value is not None
        self.layer.key[block[past:], offset[past:], 0] = query
        self.layer.value[block[past:], offset[past:], 0] = query
        key, value = self.layer.key[block, offset, 0], self.layer.value[block, offset, 0]
        scores = query @ key.T  # [tokens, total]
        scores = scores.masked_fill(every[None, :] > position[:, None], -torch.inf)
        logits = scores.softmax(1) @ value @ output
        logits[ids == self.broken_token] = torch.nan
        return logits


def dense_tokens(prompt: Sequence[int], count: int) -> list[int]:
    """Return the greedy continuation, computed from the whole sequence each time."""
    embedding, place, output = _weights()
    sequence = list(prompt)
    for _ in range(count):
        stream = embedding[sequence] + place[: len(sequence)]
        weights = (stream[-1] @ stream.T).softmax(0)
        sequence.append(int((weights @ stream @ output).argmax()))
    return sequence[len(prompt) :]
