"""The work that every side of a throughput comparison does, and what it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pa_spec import Int32Array

_SEED = 20240
_FIRST_ID = 100  # below it are control tokens in most vocabularies


@dataclass(frozen=True, slots=True)
class Load:
    """Some prompts of random tokens, each answered with exactly output_tokens, no early end."""

    num_prompts: int
    prompt_tokens: int
    output_tokens: int

    def prompts(self, vocab_size: int) -> Int32Array:
        """Return the prompts, [num_prompts, prompt_tokens]: the same ones at every call."""
        generator = np.random.default_rng(_SEED)
        first = min(_FIRST_ID, vocab_size // 2)
        shape = (self.num_prompts, self.prompt_tokens)
        return generator.integers(first, vocab_size, shape, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run of a load took.

    seconds: from submission to the last token. first_token_s: submission to a prompt's first
    token, per_token_s: between two tokens of a prompt, both means over the prompts; host_share:
    of step time. None where a side cannot tell.
    """

    seconds: float
    first_token_s: float | None = None
    per_token_s: float | None = None
    host_share: float | None = None


class Side(Protocol):
    """Something that generates: this engine or a peer."""

    @property
    def name(self) -> str:
        """The word for it in the figures."""

    def run(self, load: Load) -> Timing:
        """Do the work once and time it, preparations excluded."""
