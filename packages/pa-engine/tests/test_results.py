"""What a sampled token does to its turn: stop conditions, their order, and the step's events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from engine_cases import NUM_BLOCKS, fake_engine, run_to_end, tokens_of
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import EventBatch, GeneratorParams, RequestOptions
from pa_engine.residents import ResidentTable, TurnStart
from pa_engine.step.checkpoint import Checkpoint, take_checkpoint
from pa_engine.step.results import StepResults, stage_results
from pa_engine.testing import FakeExecutor, expected_tokens
from pa_spec import (
    BoolArray,
    ErrorCode,
    EventFlags,
    FinishReason,
    IndexArray,
    RequestId,
    SampledTokens,
    StepPlan,
)
from step_plans import Row, step_plan

EOS, OTHER = 9, 5
ENDED = EventFlags.TURN_FINISHED


@dataclass(frozen=True)
class Case:
    """One sampling row: what it sampled, and which limits that token reaches."""

    token: int = OTHER
    at_turn_limit: bool = False
    at_session_limit: bool = False
    faulty: bool = False
    rank: int | None = None

    @property
    def reason(self) -> FinishReason:
        """What ends the turn, by the precedence that results.py states."""
        if self.faulty:
            return FinishReason.FAILED
        if self.token == EOS:
            return FinishReason.EOS
        if self.at_turn_limit:
            return FinishReason.MAX_GENERATED_TOKENS
        return FinishReason.MAX_SESSION_TOKENS if self.at_session_limit else FinishReason.NONE

    @property
    def appended(self) -> bool:
        """Whether the token joins the sequence."""
        return not self.faulty and self.token != EOS


PROMPT, GENERATED = 4, 3


def _table(cases: list[Case]) -> ResidentTable:
    """Return a table whose row i is in the middle of the turn of cases[i]."""
    table = ResidentTable(len(cases))
    for row, case in enumerate(cases):
        start = TurnStart(
            turn_id=10 + row,
            params=GeneratorParams(
                max_generated_tokens=GENERATED + 1 if case.at_turn_limit else 50
            ),
            seed=1,
            eos=(EOS,),
            prompt_tokens=PROMPT,
            sequence_tokens=PROMPT,
            session_limit=PROMPT + GENERATED + 1 if case.at_session_limit else 100,
        )
        table.stage(row, RequestId(100 + row), np.arange(PROMPT, dtype=np.int32), start)
        table.columns.sequence_tokens[row] += GENERATED
        table.columns.turn_generated[row] = GENERATED
        table.columns.draws[row] = 20 + row
    table.admit(np.arange(len(cases), dtype=np.int32))
    return table


def _staged(cases: list[Case], table: ResidentTable | None = None) -> StepResults:
    past = PROMPT + GENERATED - 1
    rows = [
        Row(row, past, (-1,), request=100 + row, rank=case.rank) for row, case in enumerate(cases)
    ]
    faulty: BoolArray = np.array([case.faulty for case in cases])
    sampled = SampledTokens(
        np.array([case.token for case in cases], np.int32), faulty if faulty.any() else None
    )
    plan = step_plan(rows)
    table = table or _table(cases)
    checkpoint = take_checkpoint(table.columns, plan.resident)
    return stage_results(table, plan, checkpoint, sampling_residents(plan, checkpoint), sampled)


_CASES = st.builds(
    Case,
    token=st.sampled_from([EOS, OTHER]),
    at_turn_limit=st.booleans(),
    at_session_limit=st.booleans(),
    faulty=st.booleans(),
)


@given(st.lists(_CASES, min_size=1, max_size=8))
@pytest.mark.spec("E14", "E16", "E18", "E38", "E74")
def test_every_combination_ends_its_turn_by_precedence_and_no_row_touches_another(
    cases: list[Case],
) -> None:
    results = _staged(cases)

    events = EventBatch(results.events, {})
    assert len(events) == len(cases)
    for row, (case, event) in enumerate(zip(cases, events, strict=True)):
        ended = case.reason is not FinishReason.NONE
        assert event.finish_reason is case.reason
        assert bool(event.flags & ENDED) is ended
        assert bool(event.flags & EventFlags.TOKEN) is case.appended
        assert bool(event.flags & EventFlags.FAILED) is case.faulty
        assert event.token == (case.token if case.appended else -1)
        assert (results.events[1, row], event.turn_id) == (100 + row, 10 + row)
        generated = GENERATED + case.appended
        assert event.usage == ((PROMPT, generated, 0) if ended else (0, 0, 0))
        code = ErrorCode.REQUEST_EXECUTION_FAILURE if case.faulty else ErrorCode.NONE
        assert event.error_code is code
        assert results.appended[row] == case.appended
        assert results.sequence_tokens[row] == PROMPT + generated
        assert results.turn_generated[row] == generated
        assert results.draws[row] == 21 + row
        assert results.position[row] == PROMPT + GENERATED
    ends = [row for row, case in enumerate(cases) if case.reason is not FinishReason.NONE]
    assert results.finished.tolist() == ends


@pytest.mark.spec("E30")
def test_staging_results_changes_nothing_that_is_committed() -> None:
    table = _table([Case(), Case(token=EOS), Case(faulty=True)])
    before = {name: getattr(table.columns, name).copy() for name in type(table.columns).__slots__}
    mirror = table.tokens.copy()

    _staged([Case(), Case(token=EOS), Case(faulty=True)], table)

    for name, column in before.items():
        assert getattr(table.columns, name).tolist() == column.tolist(), name
    assert table.tokens.tolist() == mirror.tolist()


@pytest.mark.spec("E39")
def test_events_follow_the_order_of_the_policy_and_rows_that_of_the_plan() -> None:
    results = _staged([Case(rank=2), Case(rank=0, token=EOS), Case(rank=1)])

    events = EventBatch(results.events, {})

    assert events.requests.tolist() == [101, 102, 100]
    assert [event.finish_reason.name for event in events] == ["EOS", "NONE", "NONE"]
    assert results.resident.tolist() == [0, 1, 2]
    assert results.finished.tolist() == [1]


@pytest.mark.spec("E28")
def test_a_row_in_the_middle_of_its_prompt_has_no_result() -> None:
    cases = [Case(), Case(), Case()]
    plan = step_plan([Row(0, 6, (-1,)), Row(1, 0, (1, 2), samples=False), Row(2, 6, (-1,))])

    rows, table = plan.sampling_rows(), _table(cases)
    sampled = SampledTokens(np.array([OTHER, EOS], np.int32))
    assert rows is not None
    checkpoint = take_checkpoint(table.columns, plan.resident)
    results = stage_results(table, plan, checkpoint, checkpoint.rows[rows], sampled)

    assert rows.tolist() == [0, 2]
    assert results.resident.tolist() == [0, 2]
    assert results.appended.tolist() == [True, False]


def test_only_the_padding_of_another_rows_end_ids_is_no_end_id() -> None:
    table = _table([Case(), Case()])
    table.ensure_eos(4)

    results = _staged([Case(token=0), Case(token=EOS)], table)

    assert results.appended.tolist() == [True, False]


def test_a_faulty_row_fails_its_own_turn_and_the_others_commit() -> None:
    prompts = ([1, 2, 3], [4, 5])
    (bad,) = expected_tokens(prompts[0], 1)
    engine = fake_engine(executor=FakeExecutor(num_blocks=NUM_BLOCKS, faulty_tokens=(bad,)))
    failing, healthy = (
        engine.create_request(GeneratorParams(max_generated_tokens=3)) for _ in prompts
    )
    failing.begin_turn(prompts[0])
    healthy.begin_turn(prompts[1])

    events = run_to_end(engine)

    (failed,) = (event for event in events if event.request is failing)
    assert failed.flags == EventFlags.TURN_FINISHED | EventFlags.FAILED
    assert failed.error_code is ErrorCode.REQUEST_EXECUTION_FAILURE
    assert tokens_of(events, healthy) == expected_tokens(prompts[1], 3)
    assert failing.tokens.tolist() == prompts[0]
    assert engine.check_all() == ()


@pytest.mark.parametrize(
    ("turn", "session", "expected"),
    [
        (3, 0, (3, FinishReason.MAX_GENERATED_TOKENS)),
        (0, 6, (4, FinishReason.MAX_SESSION_TOKENS)),
        (4, 6, (4, FinishReason.MAX_GENERATED_TOKENS)),
        (9, 6, (4, FinishReason.MAX_SESSION_TOKENS)),
    ],
)
@pytest.mark.spec("E13", "E14")
def test_the_nearer_limit_ends_the_turn_and_the_turns_own_wins_a_tie(
    turn: int, session: int, expected: tuple[int, FinishReason]
) -> None:
    engine = fake_engine()
    request = engine.create_request(
        GeneratorParams(max_generated_tokens=turn), RequestOptions(max_session_tokens=session)
    )
    request.begin_turn([1, 2])

    events = run_to_end(engine)

    assert (len(tokens_of(events, request)), events[-1].finish_reason) == expected
    assert events[-1].usage == (2, expected[0], 0)


def sampling_residents(plan: StepPlan, checkpoint: Checkpoint) -> IndexArray:
    chosen = plan.sampling_rows()
    return checkpoint.rows if chosen is None else checkpoint.rows[chosen]
