"""Blocks that a turn gives back while its step may still write them are free when it has ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pa_engine import Engine, GeneratorParams, Request
from pa_engine.testing import FailingExecutor, FakeExecutor, FakeStep, FaultyCall
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    Admission,
    Candidates,
    EngineConfig,
    ErrorCode,
    ResidentView,
    StepAborted,
    StepLimits,
    StepPlan,
    WaitingView,
)

BLOCKS = 6
CONFIG = EngineConfig(num_blocks=BLOCKS, max_batch_size=3, max_scheduled_tokens=16)


class Refusing:
    """The usual policy, except that it calls one request unserviceable, resident or not."""

    def __init__(self) -> None:
        self.usual = DecodeFirstPolicy(16)
        self.refused = -1

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        """Order as usual."""
        return self.usual.order(residents, waiting)

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        """Leave the refused request out of the step and name it."""
        kept = candidates.request[admission.selected] != self.refused
        if kept.all():
            return self.usual.pack(candidates, admission, limits)
        rows = replace(
            admission, selected=admission.selected[kept], resident=admission.resident[kept]
        )
        plan = self.usual.pack(candidates, rows, limits)
        return replace(plan, unserviceable=np.array([self.refused], np.int64))


@pytest.mark.spec("E20", "E64", "E89")
@pytest.mark.parametrize("others", ["nobody runs", "another commits", "another is undone"])
def test_what_a_refused_resident_gives_back_is_free_after_the_step(others: str) -> None:
    fault = FaultyCall("collect", 2 if others.endswith("undone") else 99, StepAborted("again"))
    executor: FailingExecutor[FakeStep] = FailingExecutor(FakeExecutor(num_blocks=BLOCKS), fault)
    policy = Refusing()
    engine = Engine(executor, CONFIG, policy=policy)
    large = begin(engine, 60)
    engine.run()
    small = None if others == "nobody runs" else begin(engine, 3)
    policy.refused = large.id

    codes = {event.error_code for event in engine.run()}

    assert ErrorCode.REQUEST_UNSERVICEABLE in codes
    assert (ErrorCode.RETRYABLE_EXECUTION in codes) == (others == "another is undone")
    assert engine.check_all() == ()
    usage = engine._core.cache.usage
    small_owns = int(others == "another commits")
    assert (usage.free, usage.reserved) == (BLOCKS - 1 - small_owns, 0)
    assert small is None or small.turn is not None


def begin(engine: Engine[FakeStep], size: int) -> Request:
    request = engine.create_request(GeneratorParams(max_generated_tokens=9))
    request.begin_turn([1] * size)
    return request
