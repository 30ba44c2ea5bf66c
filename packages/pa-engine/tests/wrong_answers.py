"""Answers that a broken executor could give: what is wrong with each, and which check says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from engine_cases import NUM_BLOCKS
from pa_engine.testing import FakeExecutor, FakeStep
from pa_spec import BoolArray, DecoderState, SampledTokens, StepLimits, StepWork

VOCABULARY = 97


@dataclass(frozen=True)
class WrongAnswer:
    """A change that makes a step's answers wrong, and what the check says of it."""

    name: str
    change: Callable[[SampledTokens], SampledTokens]
    check_id: str
    found: str


@dataclass
class BrokenExecutor:
    """A FakeExecutor, until `change` is set."""

    change: Callable[[SampledTokens], SampledTokens] = field(default=lambda sampled: sampled)
    inner: FakeExecutor = field(default_factory=lambda: FakeExecutor(num_blocks=NUM_BLOCKS))

    def __post_init__(self) -> None:
        self.manifest, self.config = self.inner.manifest, self.inner.config

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        self.inner.bind(state, limits, columns)

    def launch(self, work: StepWork) -> FakeStep:
        return self.inner.launch(work)

    def collect(self, handle: FakeStep, live: BoolArray | None) -> SampledTokens:
        return self.change(self.inner.collect(handle, live))

    def discard(self, handle: FakeStep) -> None:
        self.inner.discard(handle)


def _one_is(token: int) -> Callable[[SampledTokens], SampledTokens]:
    def change(sampled: SampledTokens) -> SampledTokens:
        tokens = sampled.token.copy()
        tokens[1] = token
        return SampledTokens(tokens)

    return change


WRONG_ANSWERS = (
    WrongAnswer(
        "one for two rows",
        lambda sampled: SampledTokens(sampled.token[:1]),
        "answers.shape",
        r"token is int32 \[1\], expected int32 \[2\]",
    ),
    WrongAnswer(
        "one too many",
        lambda sampled: SampledTokens(np.append(sampled.token, np.int32(3))),
        "answers.shape",
        r"token is int32 \[3\], expected int32 \[2\]",
    ),
    WrongAnswer(
        "none",
        lambda sampled: SampledTokens(sampled.token[:0]),
        "answers.shape",
        r"token is int32 \[0\]",
    ),
    WrongAnswer(
        "a column",
        lambda sampled: SampledTokens(sampled.token[:, None]),
        "answers.shape",
        r"token is int32 \[2, 1\]",
    ),
    WrongAnswer(
        "64 bits",
        lambda sampled: SampledTokens(sampled.token.astype(np.int64)),
        "answers.shape",
        r"token is int64 \[2\]",
    ),
    WrongAnswer(
        "fractions",
        lambda sampled: SampledTokens((sampled.token + 0.5).astype(np.float64)),
        "answers.shape",
        r"token is float64 \[2\]",
    ),
    WrongAnswer(
        "one flag for two rows",
        lambda sampled: SampledTokens(sampled.token, np.array([True])),
        "answers.shape",
        r"faulty is bool \[1\], expected bool \[2\]",
    ),
    WrongAnswer(
        "counts for flags",
        lambda sampled: SampledTokens(sampled.token, np.array([0, 1])),
        "answers.shape",
        r"faulty is int64 \[2\], expected bool \[2\]",
    ),
    WrongAnswer("no token", _one_is(-1), "answers.vocabulary", "answer 1 .* token -1, .* 0 to 96"),
    WrongAnswer(
        "beyond", _one_is(VOCABULARY), "answers.vocabulary", "answer 1 .* token 97, .* 0 to 96"
    ),
)
