"""Every check that the engine makes is in the contract, and notices what it is for.

For each check a corruption is planted, and the ids of all checks that report it are listed, the
cache's included. `check_all` is asked about an engine between two steps. `check_step` is asked by
a real step: the corruption is planted when its `prepare` begins.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest
from engine_cases import busy_engine, run_to_end
from malformed_plans import MALFORMED
from pa_engine import invariants
from pa_engine.step import answer_check, plan_check
from pa_engine.step import check as step_check
from pa_spec import (
    CheckScope,
    ErrorCode,
    InvariantViolation,
    RuleStatus,
    checks,
)
from pa_spec import invariants as invariants_of_contract
from scan_corruptions import IN_FULL_SCAN, Planted
from step_corruptions import BEFORE_PUBLICATION, PlantedInStep, Saboteur
from wrong_answers import WRONG_ANSWERS

CHECK_ID = re.compile(r"[a-z]+\.[a-z_]+")
OURS = {check.id: check for check in checks().values() if check.owner == "engine"}


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
