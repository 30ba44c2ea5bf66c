"""A paged cache made by hand, to run a decoder without an engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import final

import torch
from pa_spec import Decoder, DecoderState, ElementType, InputUnusable, PagedLayer, StepInputs
from torch import Tensor

_DTYPES = {
    ElementType.FLOAT32: torch.float32,
    ElementType.BFLOAT16: torch.bfloat16,
    ElementType.FLOAT16: torch.float16,
}


@final
class PagedRun:
    """Sequences in the paged cache of one decoder, which it binds.

    Every sequence gets its blocks at once, in shuffled order, so that neighbours in a sequence
    are none in memory. Unused slots hold NaN: whatever reads one shows.
    """

    def __init__(
        self, decoder: Decoder[Tensor], sequences: int, tokens: int, block_size: int = 16
    ) -> None:
        group = decoder.manifest.paged
        if group is None:
            raise InputUnusable("decoder", "keeps no paged keys and values")
        columns = -(-tokens // block_size)
        num_blocks = columns * sequences
        shape = (num_blocks, block_size, *group.row_shape)
        dtype = _DTYPES[group.element_type]
        layers = {
            layer: PagedLayer(*(torch.full(shape, torch.nan, dtype=dtype) for _ in range(2)))
            for layer in group.layer_ids
        }
        order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(num_blocks))
        self._tables = order.to(torch.int32).view(sequences, columns)
        self._past = [0] * sequences
        self._decoder = decoder
        decoder.bind(DecoderState(layers, block_size, num_blocks))

    @property
    def tables(self) -> Tensor:
        """Block table of each sequence, [sequences, M] int32."""
        return self._tables

    def rewind(self, tokens: int) -> None:
        """Forget everything behind the first `tokens` tokens of every sequence."""
        self._past = [min(past, tokens) for past in self._past]

    def step(self, rows: Sequence[Sequence[int]], *, all_logits: bool = False) -> Tensor:
        """Append tokens to the sequences, one row each, and run the decoder.

        rows[i] belongs to sequence i and may be empty. Returns logits of each non-empty row's
        last token, [rows with tokens, V], or of every token.
        """
        used = [index for index, row in enumerate(rows) if row]
        counts = [len(rows[index]) for index in used]
        totals = [self._past[index] + len(rows[index]) for index in used]
        ends = list(itertools.accumulate(counts))
        wanted = range(ends[-1]) if all_logits else [end - 1 for end in ends]
        inputs = StepInputs(
            input_ids=_int32(itertools.chain.from_iterable(rows)),
            positions=None,
            cumulative_sequence_length=_int32([0, *ends]),
            past_seqlens=_int32(self._past[index] for index in used),
            block_table=self._tables[used],
            attention_metadata=_int32([max(counts), max(totals), max(totals)]),
            logits_rows=_int32(wanted),
        )
        logits = self._decoder.forward(inputs)
        for index, total in zip(used, totals, strict=True):
            self._past[index] = total
        return logits


def _int32(values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int32)
