"""Atomicity: a fault at every observer call and every executor call of a whole workload.

Method: run the workload untouched, then once for every (call, kind, once or always). The expected
outcome of each cell is the failure table of spec/engine/step_phases.toml, read as data, so that a
new phase is swept without touching this file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from pa_engine import EngineSnapshot, EventBatch
from pa_engine.snapshot import RowSnapshot
from pa_engine.testing import CallRecorder, FailAt, FailingExecutor, FaultyCall, fault_error
from pa_spec import (
    EngineFailed,
    ErrorCode,
    EventFlags,
    FaultKind,
    FaultOrigin,
    FinishReason,
    Outcome,
    Phase,
    failure_table,
)
from sweep_workload import MAX_CALLS, STEP_CODES, Workload, fake_executor

FATAL = (Outcome.EXECUTION_CONTRACT_FAILURE, Outcome.FATAL_EXECUTION_FAILURE)
PUBLISHING = tuple(phase for phase in Phase if phase.value.startswith("publish"))
RETRIES = 3


@cache
def untouched() -> tuple[tuple[tuple[int, int, str, int], ...], int]:
    recorder = CallRecorder()
    workload = Workload(fake_executor(), recorder)
    workload.run_to_end()
    return tuple(workload.log), len(recorder.calls)


def expected(
    phase: Phase, kind: FaultKind, origin: FaultOrigin = FaultOrigin.HOST
) -> Outcome | None:
    """Return the outcome that the contract's table gives, None where the fault propagates."""
    return failure_table(origin)[phase, kind].outcome


def test_workload_contains_everything_that_a_step_can_do() -> None:
    workload = Workload(fake_executor(), counts=True)

    workload.run_to_end()

    for thing in (
        "chunked prefill",
        "admission",
        "finish",
        "continuation",
        "deferral",
        "cancel",
        "block crossing",
    ):
        assert workload.seen[thing], thing
    assert not workload.engine.check_all()
    assert workload.engine.statistics().outcomes[Outcome.COMMITTED] > 30


def test_every_phase_of_the_contract_but_rollback_occurs_untouched() -> None:
    recorder = CallRecorder()
    Workload(fake_executor(), recorder).run_to_end()

    assert {phase for phase, _ in recorder.calls} == set(Phase) - {Phase.ROLLBACK}


@pytest.mark.spec("E83", "E84", "E86", "E87", "E88")
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("kind", list(FaultKind), ids=lambda kind: kind.value)
def test_fault_at_every_observer_call_has_the_outcome_of_the_table(
    kind: FaultKind, *, always: bool
) -> None:
    log, calls = untouched()

    swept = set()
    for number in range(1, calls + 1):
        observer = FailAt(number, kind, always)
        workload = Workload(fake_executor(), observer)
        run_until_fault(workload, observer)
        assert observer.fired is not None, number
        swept.add(observer.fired)
        check_cell(workload, expected(observer.fired, kind), observer.fired)
        if expected(observer.fired, kind) in FATAL:
            continue
        if always:
            check_still_blocked(workload, expected(observer.fired, kind))
        else:
            workload.run_to_end()
            assert tuple(workload.log) == log, number
    assert swept == set(Phase) - {Phase.ROLLBACK}

    # The loop ends where no fault fires any more.
    beyond = FailAt(calls + 1, kind, always)
    workload = Workload(fake_executor(), beyond)
    workload.run_to_end()
    assert beyond.fired is None
    assert tuple(workload.log) == log


@pytest.mark.spec("E86")
@pytest.mark.parametrize("kind", list(FaultKind), ids=lambda kind: kind.value)
def test_fault_in_rollback_is_fatal_and_still_restores(kind: FaultKind) -> None:
    class FailBoth:
        def phase(self, phase: Phase, step_id: int) -> None:
            if phase in (Phase.LAUNCH, Phase.ROLLBACK) and step_id == 9:
                raise fault_error(FaultKind.ABORT if phase is Phase.LAUNCH else kind)

    workload = Workload(fake_executor(), FailBoth())
    before = workload.engine.snapshot()
    batch: EventBatch | None = None
    while not workload.engine.snapshot().failed:
        before = workload.engine.snapshot()
        batch = workload.call()

    assert expected(Phase.ROLLBACK, kind) is Outcome.FATAL_EXECUTION_FAILURE
    assert batch is not None
    check_fatal(workload, batch, before, Outcome.FATAL_EXECUTION_FAILURE, restored=True)


@pytest.mark.spec("E83", "E85")
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("kind", list(FaultKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("call", ["launch", "collect"])
def test_fault_of_the_device_has_the_outcome_of_the_table(
    call: str, kind: FaultKind, *, always: bool
) -> None:
    log, _ = untouched()
    outcome = expected(Phase(call), kind, FaultOrigin.DEVICE)
    number = 0
    while True:
        number += 1
        fault = FaultyCall(call, number, fault_error(kind), always)
        workload = Workload(FailingExecutor(fake_executor(), fault))
        before = workload.engine.snapshot()
        batch: EventBatch | None = None
        while workload.engine.has_pending_requests():
            before = workload.engine.snapshot()
            batch = workload.call()
            if outcome is not None and workload.engine.statistics().outcomes[outcome]:
                break
        else:
            break
        assert batch is not None
        check_after(workload, batch, before, outcome, restored=True)
        if outcome in FATAL:
            continue
        if always:
            check_still_blocked(workload, outcome)
        else:
            workload.run_to_end()
            assert tuple(workload.log) == log, number
    assert number > 30
    assert tuple(workload.log) == log


def run_until_fault(workload: Workload, observer: FailAt) -> None:
    """Call until the fault has fired; check that cell's snapshot and events on the way."""
    before = workload.engine.snapshot()
    for _ in range(MAX_CALLS):
        if observer.calls + len(Phase) >= observer.number:  # the fault can be in this call
            before = workload.engine.snapshot()
        plans_next = observer.calls + 1 == observer.number and not before.events
        if plans_next and expected(Phase.PLAN, observer.kind) is None:
            with pytest.raises(type(fault_error(observer.kind))):
                workload.call()
            assert observer.fired is Phase.PLAN
            assert workload.engine.snapshot() == before
            return
        batch = workload.call()
        if observer.fired is not None:
            outcome = expected(observer.fired, observer.kind)
            restored = observer.fired not in PUBLISHING
            check_after(workload, batch, before, outcome, restored=restored)
            return
    raise AssertionError(observer)


def check_after(
    workload: Workload,
    batch: EventBatch,
    before: EngineSnapshot,
    outcome: Outcome | None,
    *,
    restored: bool,
) -> None:
    assert outcome is not None
    assert workload.engine.statistics().outcomes[outcome] == 1
    if outcome in FATAL:
        check_fatal(workload, batch, before, outcome, restored=restored)
        return
    (event,) = batch
    assert event.request is None
    assert event.error_code in STEP_CODES
    blocked = outcome is Outcome.EXECUTION_CAPACITY_EXCEEDED
    assert event.flags == (EventFlags.CAPACITY_BLOCKED if blocked else EventFlags.RETRYABLE)
    after = workload.engine.snapshot()
    assert after == before
    assert not workload.engine.check_all()


def check_fatal(
    workload: Workload,
    batch: EventBatch,
    before: EngineSnapshot,
    outcome: Outcome,
    *,
    restored: bool,
) -> None:
    contract = outcome is Outcome.EXECUTION_CONTRACT_FAILURE
    code = ErrorCode.ENGINE_CONTRACT_FAILURE if contract else ErrorCode.ENGINE_EXECUTION_FAILURE
    running = {r.request_id for r in before.records if r.resident < 0 and r.state == "ASSIGNED"}
    running |= {
        dict(row.columns)["request"]
        for _, row in before.rows
        if dict(row.columns)["state"] in (1, 2)
    }
    assert sorted(batch.requests.tolist()) == sorted(running)
    for event in batch:
        assert event.flags == EventFlags.TURN_FINISHED | EventFlags.FAILED
        assert event.finish_reason is FinishReason.FAILED
        assert event.error_code is code
    for _ in range(2):
        with pytest.raises(EngineFailed):
            workload.engine.run()
    assert not workload.engine.has_pending_requests()
    after = workload.engine.snapshot()
    assert after.failed
    if restored:
        assert after.cache == before.cache
        assert [without_state(row) for row in after.rows] == [
            without_state(row) for row in before.rows
        ]
        assert not workload.engine.check_all()


def without_state(row: tuple[int, RowSnapshot]) -> tuple[int, RowSnapshot]:
    """Drop what failing a turn changes: the state column."""
    index, snapshot = row
    columns = tuple((name, value) for name, value in snapshot.columns if name != "state")
    return index, replace(snapshot, columns=columns)


def check_cell(workload: Workload, outcome: Outcome | None, phase: Phase) -> None:
    if outcome is None:
        assert phase is Phase.PLAN
        assert not workload.engine.snapshot().failed


def check_still_blocked(workload: Workload, outcome: Outcome | None) -> None:
    """A fault that stays keeps the state where it was, however often the caller retries."""
    before = workload.engine.snapshot()
    for _ in range(RETRIES):
        if outcome is None:
            with pytest.raises(Exception, match="a "):
                workload.call()
        else:
            workload.call()
        assert workload.engine.snapshot() == before
    assert not workload.engine.check_all()
