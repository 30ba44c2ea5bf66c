"""Corruptions that are planted inside a step, and what `check_step` must report of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine_cases import BusyEngine
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    Admission,
    Candidates,
    Phase,
    ResidentView,
    StepId,
    StepLimits,
    StepPlan,
    WaitingView,
)
from scan_corruptions import set_column


@dataclass(frozen=True)
class PlantedInStep:
    """A corruption of a busy engine, or of the plan, while a step waits to be published."""

    check_id: str
    corrupt: Callable[[BusyEngine, StepPlan], None]
    found: str
    also: frozenset[str] = frozenset()


@dataclass
class Saboteur:
    """A policy that remembers its plan, and an observer that corrupts when `prepare` begins."""

    corrupt: Callable[[BusyEngine, StepPlan], None]
    policy: DecodeFirstPolicy = field(default_factory=lambda: DecodeFirstPolicy(16))
    busy: BusyEngine | None = None
    plan: StepPlan | None = None

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        return self.policy.order(residents, waiting)

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        self.plan = self.policy.pack(candidates, admission, limits)
        return self.plan

    def phase(self, phase: Phase, step_id: StepId) -> None:
        if phase is Phase.PREPARE and self.busy is not None:
            assert self.plan is not None
            self.corrupt(self.busy, self.plan)


def _in_step(column: str, value: int) -> Callable[[BusyEngine, StepPlan], None]:
    corrupt = set_column(column, value)
    return lambda busy, _: corrupt(busy)


def _plan_another_count(busy: BusyEngine, plan: StepPlan) -> None:
    plan.tokens[0] += 1


def _shift(field: str) -> Callable[[BusyEngine, StepPlan], None]:
    def corrupt(busy: BusyEngine, plan: StepPlan) -> None:
        object.__setattr__(plan, field, getattr(plan, field) + 1)

    return corrupt


BEFORE_PUBLICATION = (
    PlantedInStep("boundary.agreement", _in_step("committed_tokens", 3), "has 3 .* cache 4"),
    PlantedInStep("counters.generated", _in_step("turn_generated", 1), "1 generated .* with 2"),
    PlantedInStep(
        "counters.order",
        _in_step("sequence_tokens", 4),
        "committed 5 is not from 0 to sequence 4",
        frozenset({"mirror.position"}),
    ),
    PlantedInStep("limits.session", _in_step("session_limit", 5), "of 6 tokens, .* ends at 5"),
    PlantedInStep("limits.turn", _in_step("turn_limit", 2), "3 generated tokens, .* ends at 2"),
    PlantedInStep("step.logits", _shift("logits_rows"), r"tokens \[1\], .* from \[0\]"),
    PlantedInStep(
        "step.offset",
        _shift("packed_offset"),
        "from token 1, .* end at 0",
        frozenset({"step.logits"}),
    ),
    PlantedInStep("step.total", _shift("total_tokens"), "3 packed .* the rows have 2"),
    PlantedInStep("mirror.position", _in_step("sequence_tokens", 6), "of 6 tokens, .* for 5"),
    PlantedInStep(
        "step.row_identity", _in_step("request", 50), "to request 50, the plan has request 0"
    ),
    PlantedInStep(
        "step.token_count",
        _plan_another_count,
        "2 tokens planned from 4 to 5",
        frozenset({"step.offset", "step.total", "step.logits"}),
    ),
    PlantedInStep("streams.draws", _in_step("draws", 5), "5 draws are committed, .* staged 3"),
)
