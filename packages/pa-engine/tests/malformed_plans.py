"""Plans that a broken policy could make: what is wrong with each, and which check says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    Admission,
    Candidates,
    Int64Array,
    ResidentView,
    StepLimits,
    StepPlan,
    WaitingView,
)


@dataclass(frozen=True)
class Malformed:
    """A change that makes a plan wrong. check_id: a check that reports it, "" = another error.

    when: "decode" (two residents decode), "admission" (two requests come), or "both".
    """

    name: str
    change: Callable[[StepPlan], StepPlan]
    check_id: str = ""
    when: str = "both"


@dataclass
class BrokenPolicy:
    """The default policy, until `change` is set."""

    change: Callable[[StepPlan], StepPlan] = field(default=lambda plan: plan)
    inner: DecodeFirstPolicy = field(default_factory=lambda: DecodeFirstPolicy(16))

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        return self.inner.order(residents, waiting)

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        return self.change(self.inner.pack(candidates, admission, limits))


def _change(name: str, place: int, value: int) -> Callable[[StepPlan], StepPlan]:
    """Return the change that sets one place of a column."""

    def change(plan: StepPlan) -> StepPlan:
        column = getattr(plan, name).copy()
        column[place] = value
        return replace(plan, **{name: column})

    return change


def _ids(*requests: int) -> Int64Array:
    return np.array(requests, np.int64)


def _repeat(name: str) -> Callable[[StepPlan], StepPlan]:
    return lambda plan: _change(name, 1, getattr(plan, name)[0])(plan)


def _lengthen(plan: StepPlan) -> StepPlan:
    """Give the last row a token that its sequence has not."""
    plan = _change("tokens", -1, plan.tokens[-1] + 1)(plan)
    plan = _change("target_tokens", -1, plan.target_tokens[-1] + 1)(plan)
    return replace(plan, total_tokens=plan.total_tokens + 1)


MALFORMED = (
    Malformed("unknown request", _change("request", 0, 99), "plan.admission", "admission"),
    Malformed("unknown request", _change("request", 0, 99), "step.row_identity", "decode"),
    Malformed("request twice", _repeat("request"), "plan.admission", "admission"),
    Malformed("request twice", _repeat("request"), "step.row_identity", "decode"),
    Malformed("row twice", _repeat("resident"), "plan.admission", "admission"),
    Malformed("row twice", _repeat("resident"), "step.row_identity", "decode"),
    Malformed("row that does not exist", _change("resident", 0, 99)),
    Malformed("negative row", _change("resident", 0, -1)),
    Malformed(
        "rows of each other",
        lambda plan: replace(plan, resident=plan.resident[::-1].copy()),
        "step.row_identity",
        "decode",
    ),
    Malformed(
        "resident as new",
        lambda plan: replace(plan, is_new=~plan.is_new),
        "plan.admission",
        "decode",
    ),
    Malformed(
        "new as resident",
        lambda plan: replace(plan, is_new=~plan.is_new),
        "step.row_identity",
        "admission",
    ),
    Malformed("no tokens", _change("tokens", 0, 0)),
    Malformed("token beyond the sequence", _lengthen),
    Malformed("another past", _change("past_tokens", 0, 3), "boundary.agreement", "decode"),
    Malformed("another past", _change("past_tokens", 0, 3), when="admission"),
    Malformed("another target", _change("target_tokens", 0, 2), "step.token_count"),
    Malformed("smaller total", lambda plan: replace(plan, total_tokens=plan.total_tokens - 1)),
    Malformed("larger total", lambda plan: replace(plan, total_tokens=plan.total_tokens + 1)),
    Malformed("rows in one place", _change("packed_offset", 1, 0)),
    Malformed("no table", lambda plan: replace(plan, table_columns=0)),
    Malformed(
        "refused and unknown",
        lambda plan: replace(plan, unserviceable=_ids(77)),
        "plan.refusal",
    ),
    Malformed(
        "refused and run",
        lambda plan: replace(plan, unserviceable=plan.request[:1]),
        "plan.refusal",
    ),
    Malformed(
        "refused twice",
        lambda plan: replace(plan, unserviceable=np.repeat(plan.request[:1], 2)),
        "plan.refusal",
    ),
    Malformed("nothing at all", lambda plan: None),  # type: ignore[arg-type,return-value]
)
