"""The fake executor, and the plan of every step that it was given."""

from __future__ import annotations

from pa_engine.testing import FakeExecutor, FakeStep
from pa_spec import BoolArray, DecoderState, SampledTokens, StepLimits, StepPlan, StepWork


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
