"""One step of the engine: the order of its phases and what becomes of a failure in each.

    plan → reserve → checkpoint → launch → collect → prepare → publish (five sub-steps)

Before `prepare` a failure rolls back; from `prepare` on every failure is fatal, and inside
publication nothing is undone (E76 to E78). `execute` is the only place that knows the order; the
work of each phase is in the modules beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Generic

import numpy as np
from pa_spec import (
    EngineFailed,
    ErrorCode,
    EventFlags,
    FinishReason,
    Int32Array,
    InvariantViolation,
    ModelExecutor,
    Outcome,
    Phase,
    SchedulerPolicy,
    StepId,
    StepObserver,
    StepPlan,
    StepReservation,
    StepWork,
    Violation,
    any_true,
)

from pa_engine.core import EngineCore
from pa_engine.events import engine_event
from pa_engine.lifecycle import RequestLifecycle
from pa_engine.step.answer_check import check_answers
from pa_engine.step.check import check_step
from pa_engine.step.checkpoint import take_checkpoint
from pa_engine.step.fail_stop import stop_engine
from pa_engine.step.failure import is_fatal, outcome_of, without_frames
from pa_engine.step.in_flight import HandleT, InFlightStep
from pa_engine.step.plan_check import check_admissions, check_refusals
from pa_engine.step.publication import publish
from pa_engine.step.results import StepResults, stage_results
from pa_engine.step.sampling import sampling_batch
from pa_engine.step.work import host_ids

_NO_ROWS: Int32Array = np.zeros(0, np.int32)


class StepTransaction(Generic[HandleT]):
    """Runs steps over one engine's state with its collaborators."""

    def __init__(
        self,
        core: EngineCore,
        lifecycle: RequestLifecycle,
        executor: ModelExecutor[HandleT],
        policy: SchedulerPolicy,
        observer: StepObserver,
    ) -> None:
        self._core = core
        self._lifecycle = lifecycle
        self._executor = executor
        self._policy = policy
        self._observer = observer

    def execute(self) -> Outcome:
        """Try one step. Its events, if any, are in the engine's queue afterwards."""
        started = perf_counter_ns()
        core = self._core
        core.last_step += 1
        step_id = StepId(core.last_step)
        try:
            self._observer.phase(Phase.PLAN, step_id)
            plan = self._plan()
        except Exception as error:
            outcome = outcome_of(Phase.PLAN, error, on_device=False)
            if outcome is None:
                raise
            return self._fail(outcome, error)
        core.statistics.deferred_rows += len(plan.deferred)
        self._fail_unserviceable(plan)
        if not plan.num_rows:
            core.cache.end_step(step_id)  # what a refused turn gave back waits for no step
            return self._report_nothing_ran(plan)
        step: InFlightStep[HandleT] = InFlightStep(step_id, plan)
        try:
            self._run_until_staged(step)
        except BaseException as error:  # noqa: BLE001 (whatever it is, the step is undone)
            return self._abort(step, error)
        outcome = self._commit(step)
        if outcome is Outcome.COMMITTED:
            self._count(step, perf_counter_ns() - started)
        return outcome

    def _plan(self) -> StepPlan:
        core = self._core
        residents = core.residents.view()
        waiting = core.waiting.view(core.residents.free_rows() if len(core.waiting) else _NO_ROWS)
        candidates = self._policy.order(residents, waiting)
        admission = core.cache.plan_admission(candidates, core.limits)
        plan = self._policy.pack(candidates, admission, core.limits)
        if len(plan.unserviceable):
            _require_none(tuple(check_refusals(core, plan)))
        return plan

    def _fail_unserviceable(self, plan: StepPlan) -> None:
        """End each turn that can never fit, exactly once, whatever becomes of the step (E89)."""
        core = self._core
        for request_id in plan.unserviceable.tolist():
            record = core.registry.records[request_id]
            code = ErrorCode.REQUEST_UNSERVICEABLE
            core.queue.append(self._lifecycle.end_turn(record, FinishReason.FAILED, code))

    def _report_nothing_ran(self, plan: StepPlan) -> Outcome:
        core = self._core
        if len(plan.unserviceable):
            return Outcome.UNSERVICEABLE_REQUEST
        if len(plan.deferred):
            code = ErrorCode.CAPACITY_DEFERRED
            core.queue.append(engine_event(EventFlags.CAPACITY_BLOCKED, code))
            return Outcome.CAPACITY_DEFERRED
        if core.has_work():
            # E47: work that is neither run, deferred nor refused would wait forever in silence.
            error = EngineFailed("the policy planned no work although requests wait (E47)")
            return self._fail(Outcome.EXECUTION_CONTRACT_FAILURE, error)
        return Outcome.NO_WORK

    def _enter(self, step: InFlightStep[HandleT], phase: Phase) -> None:
        step.phase = phase
        self._observer.phase(phase, step.step_id)

    def _run_until_staged(self, step: InFlightStep[HandleT]) -> None:
        """Do everything that can still be undone: reserve to collect."""
        core, plan = self._core, step.plan
        self._enter(step, Phase.RESERVE)
        step.reservation = core.cache.reserve(step.step_id, plan)
        self._enter(step, Phase.CHECKPOINT)
        self._stage_admissions(step)
        step.checkpoint = take_checkpoint(core.residents.columns, plan.resident)
        rows, chosen = step.checkpoint.rows, plan.sampling_rows()
        sampling = rows if chosen is None else rows[chosen]
        self._enter(step, Phase.LAUNCH)
        work = StepWork(
            step.step_id,
            plan,
            host_ids(core.residents, plan, rows),
            step.reservation.table,
            sampling_batch(core.residents, sampling),
        )
        step.on_device = True
        step.handle = self._executor.launch(work)
        step.on_device = False
        self._enter(step, Phase.COLLECT)
        step.on_device = True
        sampled = self._executor.collect(step.handle, None)
        step.on_device = False
        _require_none(check_answers(sampled, len(sampling), core.decoder.vocab_size))
        step.execution_ns = sampled.execution_ns
        step.results = stage_results(core.residents, plan, step.checkpoint, sampling, sampled)

    def _stage_admissions(self, step: InFlightStep[HandleT]) -> None:
        """Write newly admitted requests into their free rows, invisible until publication."""
        core, plan = self._core, step.plan
        residents = core.residents
        if any_true(plan.is_new):
            _require_none(check_admissions(core, plan))
            new = np.flatnonzero(plan.is_new)
            step.staged = plan.resident[new]
            for row, request_id in zip(
                step.staged.tolist(), plan.request[new].tolist(), strict=True
            ):
                record = core.registry.records[request_id]
                assert record.start is not None
                residents.ensure_capacity(len(record.tokens))
                residents.stage(row, record.request_id, record.tokens, record.start)
        residents.ensure_capacity(int(residents.columns.sequence_tokens[plan.resident].max()) + 1)

    def _commit(self, step: InFlightStep[HandleT]) -> Outcome:
        """Cross the commit boundary: every failure from here on is fatal (E76 to E78)."""
        core = self._core
        reservation, results = step.reservation, step.results
        assert reservation is not None
        assert results is not None
        try:
            self._enter(step, Phase.PREPARE)
            self._require_sound(step, results, reservation)
            reservation.prepare()
        except BaseException as error:  # noqa: BLE001 (whatever it is, the step is undone)
            return self._abort(step, error)
        usage, statistics = core.cache.usage, core.statistics
        statistics.peak_blocks_used = max(statistics.peak_blocks_used, usage.total - usage.free)
        try:
            publish(core, step, results, reservation, lambda p: self._enter(step, p))
        except BaseException as error:  # noqa: BLE001 (nothing is undone here: fail-stop)
            return self._fail_for(step, error)
        core.cache.end_step(step.step_id)
        return Outcome.COMMITTED

    def _require_sound(
        self, step: InFlightStep[HandleT], results: StepResults, reservation: StepReservation
    ) -> None:
        """Raise InvariantViolation naming every check that failed (E81)."""
        assert step.checkpoint is not None
        ours = check_step(self._core, step.plan, step.checkpoint, results)
        _require_none((*ours, *reservation.validate()))

    def _abort(self, step: InFlightStep[HandleT], error: BaseException) -> Outcome:
        """Undo a step and report what its failure means (E83 to E87)."""
        failed_phase, on_device = step.phase, step.on_device
        try:
            self._roll_back(step)
        except BaseException as second:  # noqa: BLE001 (rollback failed: fatal)
            second.__context__ = error
            return self._fail_for(step, second)
        if not isinstance(error, Exception):
            raise error
        outcome = outcome_of(failed_phase, error, on_device=on_device)
        assert outcome is not None
        if is_fatal(outcome):
            return self._fail(outcome, error)
        if outcome is Outcome.EXECUTION_CAPACITY_EXCEEDED:
            flags, code = EventFlags.CAPACITY_BLOCKED, ErrorCode.EXECUTION_CAPACITY_EXCEEDED
        else:
            flags, code = EventFlags.RETRYABLE, ErrorCode.RETRYABLE_EXECUTION
        self._core.last_abort = without_frames(error)
        self._core.queue.append(engine_event(flags, code))
        return outcome

    def _roll_back(self, step: InFlightStep[HandleT]) -> None:
        """Give everything back that the step took; committed state was never touched (E84)."""
        try:
            self._enter(step, Phase.ROLLBACK)
        finally:
            residents = self._core.residents
            # The device may hold this step's tokens as its last ones: the host gives ids again.
            residents.token_on_device[step.plan.resident] = False
            if step.staged is not None:
                residents.unstage(step.staged)
            if step.handle is not None:
                self._executor.discard(step.handle)
            if step.reservation is not None:
                step.reservation.discard()
            self._core.cache.end_step(step.step_id)

    def _fail_for(self, step: InFlightStep[HandleT], error: BaseException) -> Outcome:
        """Stop for good inside rollback or publication.

        Turns that the step would have ended fail as well: their events were not published.
        """
        outcome = outcome_of(step.phase, error, on_device=False)
        assert outcome is not None
        ended: list[int] = []
        if step.results is not None and step.phase is not Phase.ROLLBACK:
            columns = self._core.residents.columns
            ended = columns.request[step.results.resident[step.results.finished]].tolist()
        return self._fail(outcome, error, ended)

    def _fail(self, outcome: Outcome, error: BaseException, ended: Sequence[int] = ()) -> Outcome:
        stop_engine(self._core, self._lifecycle, outcome, error, ended)
        if not isinstance(error, Exception):
            raise error
        return outcome

    def _count(self, step: InFlightStep[HandleT], elapsed_ns: int) -> None:
        statistics, plan, results = self._core.statistics, step.plan, step.results
        assert results is not None
        statistics.steps += 1
        statistics.rows += plan.num_rows
        statistics.generated_tokens += results.num_appended
        statistics.prompt_tokens += int(np.dot(plan.tokens, plan.is_prefill))
        statistics.execution_ns += step.execution_ns
        statistics.host_ns += elapsed_ns - step.execution_ns


def _require_none(violations: Sequence[Violation]) -> None:
    if violations:
        raise InvariantViolation(violations)
