"""An executor of one's own: no model, no packing, an arithmetic rule over whole sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pa_spec import (
    BoolArray,
    DecoderConfig,
    DecoderState,
    Int32Array,
    SampledTokens,
    StateManifest,
    StepLimits,
    StepWork,
)

VOCABULARY = 211


def rule(sequence: Sequence[int]) -> int:
    """Return the token that follows: every token counts, by its place."""
    return sum((place + 3) * token for place, token in enumerate(sequence)) % VOCABULARY


class RuleExecutor:
    """Keeps each resident's sequence as a list and answers by `rule`.

    It needs no block table: what a step's rows begin at tells how much of a list still holds, so
    a step that was undone is simply written again.
    """

    def __init__(self, eos_token_ids: tuple[int, ...] = ()) -> None:
        self.manifest = StateManifest(())
        self.config = DecoderConfig(VOCABULARY, 4096, eos_token_ids)
        self._sequences: dict[int, list[int]] = {}
        self._answers: dict[int, int] = {}

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Start without any sequence; there are no tensors to take."""
        self._sequences.clear()

    def launch(self, work: StepWork) -> Int32Array:
        """Append each row's ids to its sequence and answer for the rows that sample."""
        plan, answers = work.plan, []
        samples = np.diff(plan.logits_offsets) > 0
        for row, resident in enumerate(plan.resident.tolist()):
            first, count = int(plan.packed_offset[row]), int(plan.tokens[row])
            ids = work.host_ids[first : first + count].tolist()
            sequence = self._sequences.setdefault(resident, [])
            del sequence[int(plan.past_tokens[row]) :]
            # -1 stands for what this row sampled last, which only the executor knows.
            sequence += [self._answers[resident] if token < 0 else token for token in ids]
            if samples[row]:
                self._answers[resident] = rule(sequence)
                answers.append(self._answers[resident])
        return np.array(answers, np.int32)

    def collect(self, handle: Int32Array, live: BoolArray | None) -> SampledTokens:
        """Return the answers."""
        return SampledTokens(handle)

    def discard(self, handle: Int32Array) -> None:
        """Forget nothing: the next step says where its rows begin."""
