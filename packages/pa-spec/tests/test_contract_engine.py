from __future__ import annotations

from enum import Enum, IntEnum, IntFlag

import pytest
from pa_spec import (
    ErrorCode,
    EventFlags,
    FaultKind,
    FaultOrigin,
    FinishReason,
    Outcome,
    Phase,
    RequestState,
    error_codes,
    event_flags,
    failure_table,
    finish_reasons,
    outcomes,
    request_states,
    request_transitions,
    step_phases,
)

FATAL = (Outcome.EXECUTION_CONTRACT_FAILURE, Outcome.FATAL_EXECUTION_FAILURE)


def members(kind: type[IntEnum | IntFlag]) -> dict[str, int]:
    return {name: member.value for name, member in kind.__members__.items()}


def test_event_values_are_the_members_of_the_enums() -> None:
    assert {row.name: row.value for row in event_flags()} == members(EventFlags)
    assert {row.name: row.value for row in finish_reasons()} == members(FinishReason)
    assert {row.name: row.value for row in error_codes()} == members(ErrorCode)


def test_only_the_appended_error_code_is_marked_as_added() -> None:
    rows = (*event_flags(), *finish_reasons(), *error_codes())

    assert [row.name for row in rows if row.added] == ["REQUEST_EXECUTION_FAILURE"]


@pytest.mark.spec("E7")
def test_request_states_are_the_members_of_the_enum() -> None:
    assert {row.name: row.value for row in request_states()} == members(RequestState)


@pytest.mark.spec("E8")
def test_nothing_leaves_closed_and_everything_can_be_closed() -> None:
    transitions = request_transitions()
    leaving = {target for (source, _), target in transitions.items() if source == 4}

    assert leaving == {RequestState.CLOSED}
    for state in RequestState:
        assert transitions[state, "close"] is RequestState.CLOSED


@pytest.mark.spec("E8")
def test_a_turn_begins_only_where_none_is_under_way() -> None:
    begins = {source for source, event in request_transitions() if event == "begin_turn"}

    assert begins == {RequestState.UNASSIGNED, RequestState.TURN_COMPLETE}


def test_phases_are_the_members_of_the_enum_in_order() -> None:
    assert [row.name for row in step_phases()] == list(Phase)


def test_failure_table_has_every_phase_and_kind_once() -> None:
    cells: set[tuple[Enum, Enum]] = {(phase, kind) for phase in Phase for kind in FaultKind}

    assert set(failure_table()) == cells
    assert {phase for phase, _ in failure_table(FaultOrigin.DEVICE)} == {
        Phase.LAUNCH,
        Phase.COLLECT,
    }


@pytest.mark.spec("E55", "E57", "E83", "E86", "E87")
def test_failure_table_is_the_one_that_the_engine_promises() -> None:
    abort, memory, unknown = FaultKind.ABORT, FaultKind.OUT_OF_MEMORY, FaultKind.UNKNOWN
    table = failure_table()
    device = failure_table(FaultOrigin.DEVICE)

    assert table[Phase.PLAN, abort].outcome is None
    assert table[Phase.PLAN, memory].outcome is None
    for phase in (Phase.CHECKPOINT, Phase.COLLECT, Phase.LAUNCH):
        assert table[phase, abort].outcome is Outcome.RETRYABLE_BATCH_ABORT
        assert table[phase, memory].outcome is Outcome.EXECUTION_CAPACITY_EXCEEDED
    assert table[Phase.COLLECT, unknown].outcome is Outcome.RETRYABLE_BATCH_ABORT
    assert device[Phase.COLLECT, unknown].outcome is Outcome.FATAL_EXECUTION_FAILURE
    for phase in set(Phase) - {Phase.PLAN, Phase.CHECKPOINT, Phase.COLLECT, Phase.LAUNCH}:
        assert {table[phase, kind].outcome for kind in FaultKind} <= set(FATAL)


@pytest.mark.spec("E78", "E84")
def test_only_publication_and_rollback_leave_state_behind() -> None:
    for (phase, _), cell in failure_table().items():
        late = phase is Phase.ROLLBACK or phase.value.startswith("publish")
        assert cell.restored is not late


@pytest.mark.spec("E88", "E89")
def test_outcomes_are_the_members_of_the_enum_and_fatal_ones_end_the_engine() -> None:
    assert list(outcomes()) == list(Outcome)
    for outcome, row in outcomes().items():
        assert row.engine_reusable is (outcome not in FATAL)
        assert (EventFlags.FAILED in row.flags) is not row.request_usable
