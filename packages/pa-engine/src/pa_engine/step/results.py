"""From sampled tokens to what each row's turn becomes, before anything is published."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pa_spec import (
    NO_TOKEN,
    BoolArray,
    ErrorCode,
    EventFlags,
    FinishReason,
    IndexArray,
    Int32Array,
    Int64Array,
    SampledTokens,
    StepPlan,
    any_true,
)

from pa_engine.events import CODE, FLAGS, GENERATED, NUM_COLUMNS, PROMPT, REASON, REQUEST, TURN
from pa_engine.events import TOKEN as TOKEN_COLUMN
from pa_engine.residents import ResidentColumns, ResidentTable
from pa_engine.step.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class StepResults:
    """Staged results of the sampling rows, s of them, in the order of the plan (E74).

    resident: [s] rows. token: [s] sampled. position: [s] where an appended token goes in the
    mirror. sequence_tokens, turn_generated, draws: [s] values after the step. appended: [s],
    num_appended of them. finished: indices into s of the turns that end; reason: [s] FinishReason,
    or None when none ends. events: [9, s] columns in the policy's order (E39).
    """

    resident: IndexArray
    token: Int32Array
    position: Int64Array
    sequence_tokens: Int64Array
    turn_generated: Int64Array
    draws: Int64Array
    appended: BoolArray
    num_appended: int
    finished: IndexArray
    reason: Int64Array | None
    events: Int64Array


def stage_results(
    residents: ResidentTable,
    plan: StepPlan,
    checkpoint: Checkpoint,
    resident: IndexArray,
    sampled: SampledTokens,
) -> StepResults:
    """Apply the stop conditions and build the step's events; changes nothing (E14, E16).

    resident: [s] the rows that sample. Precedence: a faulty row, then EOS, then the turn's limit,
    then the session's.
    """
    columns = residents.columns
    request, rank, draws = plan.request, plan.rank, checkpoint.draws
    before, output = checkpoint.sequence_tokens, checkpoint.turn_generated
    chosen = plan.sampling_rows()
    if chosen is not None:
        request, rank, draws = request[chosen], rank[chosen], draws[chosen]
        before, output = before[chosen], output[chosen]
    token = sampled.token
    is_eos = _ends_sequence(residents.eos, resident, token)
    appended = ~is_eos
    if sampled.faulty is not None:
        appended &= ~sampled.faulty
    generated = output + appended
    sequence = before + appended
    at_turn_limit = generated >= columns.turn_limit[resident]
    at_session_limit = sequence >= columns.session_limit[resident]
    ended = ~appended | at_turn_limit | at_session_limit
    finished = np.flatnonzero(ended)
    reason = None
    if len(finished):
        reason = _reasons(is_eos, at_turn_limit, at_session_limit, sampled.faulty)
    results = StepResults(
        resident=resident,
        token=token,
        position=before,
        sequence_tokens=sequence,
        turn_generated=generated,
        draws=draws + 1,
        appended=appended,
        num_appended=int(np.count_nonzero(appended)),
        finished=finished,
        reason=reason,
        events=np.zeros((NUM_COLUMNS, len(resident)), np.int64),
    )
    _fill_events(results, residents.columns, request)
    if any_true(rank[1:] < rank[:-1]):
        return replace(results, events=results.events[:, np.argsort(rank, kind="stable")])
    return results


def _fill_events(results: StepResults, columns: ResidentColumns, request: Int64Array) -> None:
    events, resident = results.events, results.resident
    events[TOKEN_COLUMN] = results.token
    events[REQUEST] = request
    events[TURN] = columns.turn_id[resident]
    events[FLAGS] = int(EventFlags.TOKEN)
    if results.reason is not None:
        finished = results.finished
        events[PROMPT, finished] = columns.turn_prompt[resident[finished]]
        events[GENERATED, finished] = results.turn_generated[finished]
        _mark_finished(events, results.appended, finished, results.reason)


def _ends_sequence(eos: Int32Array, resident: IndexArray, token: Int32Array) -> BoolArray:
    """Return [s] whether the token is one of its row's end-of-sequence ids.

    eos: [R, ids of a turn]. A loop over the few ids beats one comparison in two dimensions.
    """
    is_eos: BoolArray = eos[:, 0][resident] == token
    for column in range(1, eos.shape[1]):
        is_eos |= eos[:, column][resident] == token
    return is_eos


def _reasons(
    is_eos: BoolArray,
    at_turn_limit: BoolArray,
    at_session_limit: BoolArray,
    faulty: BoolArray | None,
) -> Int64Array:
    reason = np.zeros(len(is_eos), np.int64)
    reason[at_session_limit] = int(FinishReason.MAX_SESSION_TOKENS)
    reason[at_turn_limit] = int(FinishReason.MAX_GENERATED_TOKENS)
    reason[is_eos] = int(FinishReason.EOS)
    if faulty is not None:
        reason[faulty] = int(FinishReason.FAILED)
    return reason


def _mark_finished(
    events: Int64Array, appended: BoolArray, finished: IndexArray, reason: Int64Array
) -> None:
    ended_by = reason[finished]
    flags = np.where(appended[finished], int(EventFlags.TOKEN), 0)
    flags |= int(EventFlags.TURN_FINISHED)
    failed = ended_by == int(FinishReason.FAILED)
    flags[failed] |= int(EventFlags.FAILED)
    events[CODE, finished[failed]] = int(ErrorCode.REQUEST_EXECUTION_FAILURE)
    events[FLAGS, finished] = flags
    events[REASON, finished] = ended_by
    events[TOKEN_COLUMN, finished[~appended[finished]]] = NO_TOKEN
