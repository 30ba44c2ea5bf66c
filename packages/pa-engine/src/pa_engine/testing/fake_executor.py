"""An executor whose next token is a hash of the whole sequence, read back through the blocks.

Every input id is written into a paged cell like a key would be, and the answer is computed from
the cells that the block table names. A wrong table, a lost or doubled write, a block that two
requests share by mistake or a retry that starts from the wrong place changes the answer, and
`expected_tokens` says what it must be without any engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from pa_spec import (
    BoolArray,
    DecoderConfig,
    DecoderState,
    InputUnusable,
    Int32Array,
    SampledTokens,
    StateManifest,
    StepLimits,
    StepWork,
)

from pa_engine.executors.packing import StepPacker

_FACTOR = 6364136223846793005
_MASK = 2**64 - 1
_UNWRITTEN = -7


@dataclass(frozen=True, slots=True)
class FakeStep:
    """A launched step: one answer for each sampling row."""

    tokens: Int32Array


@final
@dataclass(kw_only=True)
class FakeExecutor:
    """Answers every sampling row with `next_token` of its sequence, vocabulary and salt.

    num_blocks, block_size: shape of the cells, as in the engine's configuration. eos_token_ids:
    ids among the vocabulary that end a turn. faulty_tokens: answers that are reported as faulty
    rows instead.
    """

    num_blocks: int
    block_size: int = 16
    vocab_size: int = 97
    context_length: int = 4096
    eos_token_ids: tuple[int, ...] = ()
    faulty_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.manifest = StateManifest(())
        self.config = DecoderConfig(self.vocab_size, self.context_length, self.eos_token_ids)
        shape = (self.num_blocks, self.block_size)
        self.cells: Int32Array = np.full(shape, _UNWRITTEN, np.int32)
        """[N, S] the id last written into each slot."""
        self._packer: StepPacker | None = None

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Size the packing buffers."""
        del state
        self._packer = StepPacker(limits, columns, "cpu")

    def launch(self, work: StepWork) -> FakeStep:
        """Store the step's ids and hash each sampling row's sequence."""
        if self._packer is None:
            raise InputUnusable("FakeExecutor", "launch before bind", "bind first")
        packed = self._packer.pack(work)
        table = self._packer.block_table(packed, work.plan.table_columns).numpy()
        ids = packed.input_ids.numpy()
        starts = packed.cumulative_sequence_length.tolist()
        past = packed.past_seqlens.tolist()
        wanted = set(packed.logits_rows.tolist())
        answers = []
        for row, (begin, end) in enumerate(pairwise(starts)):
            total = past[row] + end - begin
            position = np.arange(total)
            blocks = table[row, position // self.cells.shape[1]]
            if len(blocks) and not 0 <= int(blocks.min()) <= int(blocks.max()) < len(self.cells):
                raise InputUnusable("block_table", f"row {row}: {blocks}", "mapped blocks")
            offsets = position % self.cells.shape[1]
            self.cells[blocks[past[row] :], offsets[past[row] :]] = ids[begin:end]
            if end - 1 in wanted:
                answers.append(next_token(self.cells[blocks, offsets], self.config.vocab_size))
        tokens = np.array(answers, np.int32)
        self._packer.remember_host(packed, tokens)
        return FakeStep(tokens)

    def collect(self, handle: FakeStep, live: BoolArray | None) -> SampledTokens:
        """Return the answers."""
        del live
        faulty = np.isin(handle.tokens, self.faulty_tokens)
        return SampledTokens(handle.tokens, faulty if faulty.any() else None)

    def discard(self, handle: FakeStep) -> None:
        """Do nothing."""


def next_token(sequence: Int32Array, vocab_size: int) -> int:
    """Return the answer to a sequence: a hash of every id and its place."""
    state = 1
    for token in sequence.tolist():
        state = (state * _FACTOR + token + 1442695040888963407) & _MASK
    return (state >> 33) % vocab_size


def expected_tokens(
    prompt: Sequence[int], count: int, vocab_size: int = 97, eos: Sequence[int] = ()
) -> list[int]:
    """Return what an engine must generate: up to `count` ids, ending before an id of `eos`."""
    sequence = list(prompt)
    for _ in range(count):
        token = next_token(np.array(sequence, np.int32), vocab_size)
        if token in eos:
            break
        sequence.append(token)
    return sequence[len(prompt) :]
