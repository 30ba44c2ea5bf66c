"""Every check that the engine makes is in the contract, and notices what it is for.

For each check a corruption is planted, and the ids of all checks that report it are listed, the
cache's included. `check_all` is asked about an engine between two steps. `check_step` is asked by
a real step: the corruption is planted when its `prepare` begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from engine_cases import BusyEngine, busy_engine, run_to_end
from malformed_plans import MALFORMED
from pa_engine import invariants
from pa_engine.events import REQUEST, empty_columns
from pa_engine.step import answer_check, plan_check
from pa_engine.step import check as step_check
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    Admission,
    Candidates,
    CheckScope,
    ErrorCode,
    InvariantViolation,
    Phase,
    ResidentView,
    RuleStatus,
    StepId,
    StepLimits,
    StepPlan,
    WaitingView,
    checks,
)
from pa_spec import invariants as invariants_of_contract
from wrong_answers import WRONG_ANSWERS

CHECK_ID = re.compile(r"[a-z]+\.[a-z_]+")
OURS = {check.id: check for check in checks().values() if check.owner == "engine"}


@dataclass(frozen=True)
class Planted:
    """A corruption of a busy engine, the check it is for, and what it makes that one say."""

    check_id: str
    corrupt: Callable[[BusyEngine], None]
    found: str
    also: frozenset[str] = frozenset()

    @property
    def reported(self) -> set[str]:
        """Every id that is reported."""
        return {self.check_id, *self.also}


def _set(column: str, value: int) -> Callable[[BusyEngine], None]:
    """Set a column of the decoding request's row."""

    def corrupt(busy: BusyEngine) -> None:
        getattr(busy.core.residents.columns, column)[busy.row(busy.decoding)] = value

    return corrupt


def _add(column: str, value: int) -> Callable[[BusyEngine], None]:
    def corrupt(busy: BusyEngine) -> None:
        getattr(busy.core.residents.columns, column)[busy.row(busy.decoding)] += value

    return corrupt


def _retain_event_of_nobody(busy: BusyEngine) -> None:
    event = empty_columns(1)
    event[REQUEST] = 77
    busy.core.queue.append(event)


def _narrow_mirror(busy: BusyEngine) -> None:
    busy.core.residents.tokens = busy.core.residents.tokens[:, :4]


def _write_foreign_token(busy: BusyEngine) -> None:
    busy.core.residents.tokens[busy.row(busy.decoding), 1] = 97


def _swap_records(busy: BusyEngine) -> None:
    records = busy.core.registry.records
    mine, other = records[busy.decoding.id], records[busy.other.id]
    mine.resident, other.resident = other.resident, mine.resident


def _empty_the_queue(busy: BusyEngine) -> None:
    busy.core.waiting.remove(np.array([busy.waiting.id]))


def _queue_twice(busy: BusyEngine) -> None:
    busy.core.waiting.append(busy.waiting.id, 3, 6)


def _own_a_free_row(busy: BusyEngine) -> None:
    busy.done.close()
    busy.core.residents.columns.request[2] = 5


def _forget_record(busy: BusyEngine) -> None:
    del busy.core.registry.records[busy.done.id]


def _own_two_rows(busy: BusyEngine) -> None:
    columns = busy.core.residents.columns
    columns.request[busy.row(busy.other)] = busy.decoding.id


def _run_what_is_done(busy: BusyEngine) -> None:
    columns = busy.core.residents.columns
    row = busy.row(busy.decoding)
    columns.sequence_tokens[row] = columns.committed_tokens[row]


IN_FULL_SCAN = (
    Planted("boundary.agreement", _add("committed_tokens", -1), "has 3 committed tokens, .* 4"),
    Planted(
        "counters.order",
        _set("committed_tokens", -1),
        "committed -1 is not from 0 to sequence 5",
        frozenset({"boundary.agreement"}),
    ),
    Planted("events.owner", _retain_event_of_nobody, "request 77, which is closed"),
    Planted("limits.session", _set("session_limit", 4), "of 5 tokens, its session ends at 4"),
    Planted("limits.turn", _set("turn_generated", 10), "10 generated tokens, its turn ends at 9"),
    Planted("mirror.capacity", _narrow_mirror, "of 5 tokens, the mirror holds 4"),
    Planted("mirror.vocabulary", _write_foreign_token, "holds token 97, ids are 0 to 96"),
    Planted("records.row", _swap_records, "request 0: its row 1 belongs to request 1"),
    Planted("records.waiting", _empty_the_queue, "request 3: ASSIGNED in row -1, and 0 times"),
    Planted("records.waiting", _queue_twice, "request 3: ASSIGNED in row -1, and 2 times"),
    Planted("rows.free", _own_a_free_row, "resident 2: nobody's row belongs to request 5"),
    Planted("rows.owner", _own_two_rows, "request 0 has 2 rows", frozenset({"records.row"})),
    Planted("rows.record", _forget_record, "resident 2: request 2 has no record"),
    Planted("rows.work", _run_what_is_done, "to be run with 4 of 4 tokens committed"),
)


@pytest.mark.parametrize("planted", IN_FULL_SCAN, ids=lambda planted: planted.check_id)
@pytest.mark.spec("E5", "E8", "E13", "E14", "E20", "E25", "E26", "E29", "E41", "E48", "E49", "E65")
def test_full_scan_reports_what_is_planted_and_nothing_unlisted(planted: Planted) -> None:
    busy = busy_engine()
    assert busy.engine.check_all() == ()

    planted.corrupt(busy)

    found = busy.engine.check_all()
    assert {violation.check_id for violation in found} == planted.reported
    ours = next(each.found for each in found if each.check_id == planted.check_id)
    assert re.search(planted.found, ours)


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
    corrupt = _set(column, value)
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


@pytest.mark.parametrize("planted", BEFORE_PUBLICATION, ids=lambda planted: planted.check_id)
@pytest.mark.spec("E26", "E49", "E52", "E61", "E65", "E73", "E76", "E80", "E81")
def test_step_reports_what_is_planted_and_nothing_unlisted(planted: PlantedInStep) -> None:
    saboteur = Saboteur(planted.corrupt)
    saboteur.busy = busy = busy_engine(policy=saboteur, observer=saboteur)

    events = list(busy.engine.run())

    assert {event.error_code for event in events} == {ErrorCode.ENGINE_CONTRACT_FAILURE}
    with pytest.raises(InvariantViolation) as stored:
        busy.engine.run()
    found = stored.value.violations
    assert {each.check_id for each in found} == {planted.check_id, *planted.also}
    ours = next(each.found for each in found if each.check_id == planted.check_id)
    assert re.search(planted.found, ours)


@pytest.mark.spec("E81")
def test_a_step_without_corruption_is_sound() -> None:
    saboteur = Saboteur(lambda busy, plan: None)
    saboteur.busy = busy = busy_engine(policy=saboteur, observer=saboteur)

    busy.done.close()
    events = run_to_end(busy.engine)

    assert {event.error_code for event in events} == {ErrorCode.NONE}
    assert busy.engine.check_all() == ()


def test_every_check_of_the_contract_has_a_planted_corruption() -> None:
    scanned = {each.id for each in OURS.values() if each.scope is not CheckScope.STEP}
    stepped = {each.id for each in OURS.values() if each.scope is not CheckScope.ALL}
    of_parts = {each for each in stepped if each.startswith(("plan.", "answers."))}

    assert {planted.check_id for planted in IN_FULL_SCAN} == scanned
    assert {planted.check_id for planted in BEFORE_PUBLICATION} == stepped - of_parts
    assert {each.check_id for each in (*MALFORMED, *WRONG_ANSWERS)} >= of_parts


@pytest.mark.parametrize(
    ("modules", "other"),
    [((invariants,), CheckScope.STEP), ((step_check, plan_check, answer_check), CheckScope.ALL)],
    ids=["full scan", "step"],
)
def test_the_checks_in_the_code_are_those_of_the_contract(
    modules: tuple[ModuleType, ...], other: CheckScope
) -> None:
    trees = [ast.parse(Path(str(module.__file__)).read_text("utf-8")) for module in modules]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    strings = {each.value for each in nodes if isinstance(each, ast.Constant)}
    named = {each for each in strings if isinstance(each, str) and CHECK_ID.fullmatch(each)}

    assert named == {check.id for check in OURS.values() if check.scope is not other}


def test_every_check_cites_invariants_that_are_active() -> None:
    for check in OURS.values():
        assert check.cites
        for cited in check.cites:
            assert invariants_of_contract()[cited].status is RuleStatus.ACTIVE, check.id
