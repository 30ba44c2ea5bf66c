"""Everything that belongs to one step, from its plan to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pa_spec import Int32Array, Phase, StepId, StepPlan, StepReservation

from pa_engine.step.checkpoint import Checkpoint
from pa_engine.step.results import StepResults

HandleT = TypeVar("HandleT")


@dataclass(slots=True)
class InFlightStep(Generic[HandleT]):
    """A step between `plan` and its end: it owns plan, reservation, checkpoint and results.

    phase is the last phase begun. staged are free rows that hold values of requests which the
    step will admit. on_device is true while the failure of a call would be the device's.
    """

    step_id: StepId
    plan: StepPlan
    phase: Phase = Phase.PLAN
    reservation: StepReservation | None = None
    checkpoint: Checkpoint | None = None
    handle: HandleT | None = None
    results: StepResults | None = None
    staged: Int32Array | None = None
    on_device: bool = False
    execution_ns: int = 0
