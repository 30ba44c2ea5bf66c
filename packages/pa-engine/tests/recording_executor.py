"""Executors that keep the plans of their steps, or answer from a list."""

from __future__ import annotations

import numpy as np
from pa_engine.testing import FakeExecutor, FakeStep
from pa_spec import (
    BoolArray,
    DecoderConfig,
    DecoderState,
    SampledTokens,
    StateManifest,
    StepLimits,
    StepPlan,
    StepWork,
)


class RecordingExecutor:
    """Answers as FakeExecutor does; plans: of the steps launched so far."""

    def __init__(self, fake: FakeExecutor) -> None:
        self.fake = fake
        self.manifest, self.config = fake.manifest, fake.config
        self.plans: list[StepPlan] = []

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        self.fake.bind(state, limits, columns)

    def launch(self, work: StepWork) -> FakeStep:
        self.plans.append(work.plan)
        return self.fake.launch(work)

    def collect(self, handle: FakeStep, live: BoolArray | None) -> SampledTokens:
        return self.fake.collect(handle, live)

    def discard(self, handle: FakeStep) -> None:
        self.fake.discard(handle)


class ScriptedExecutor:
    """Answers what a list says, one sampling row at a time; computes nothing."""

    def __init__(self, eos_token_ids: tuple[int, ...] = ()) -> None:
        self.manifest = StateManifest(())
        self.config = DecoderConfig(97, 4096, eos_token_ids)
        self.answers: list[int] = []

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Keep nothing."""

    def launch(self, work: StepWork) -> int:
        return len(work.plan.logits_rows)

    def collect(self, handle: int, live: BoolArray | None) -> SampledTokens:
        taken, self.answers = self.answers[:handle], self.answers[handle:]
        return SampledTokens(np.array(taken, np.int32))

    def discard(self, handle: int) -> None:
        """Nothing runs."""
