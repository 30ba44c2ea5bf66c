"""What callers do to requests between steps: create, begin and cancel turns, close, abandon.

Every operation validates first and assigns afterwards, so that one that raises changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pa_spec import (
    ErrorCode,
    EventFlags,
    FinishReason,
    InputUnusable,
    Int32Array,
    Int64Array,
    RequestState,
    TurnId,
    rules,
)

from pa_engine.core import EngineCore
from pa_engine.events import (
    CODE,
    FLAGS,
    GENERATED,
    PROMPT,
    REASON,
    REQUEST,
    TURN,
    Usage,
    empty_columns,
)
from pa_engine.options import GeneratorParams, RequestOptions, TurnOptions, require_type
from pa_engine.record import RequestRecord
from pa_engine.request import Request
from pa_engine.residents import TurnStart
from pa_engine.turn import Turn

LAST_TURN_ID = 2**63 - 1
"""Event columns are int64, so turn ids end here and not at the uint64 of E12."""

_EXECUTABLE = (RequestState.ASSIGNED, RequestState.ACTIVE)


class RequestLifecycle:
    """Changes requests on behalf of their handles."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core

    def create(self, params: GeneratorParams | None, options: RequestOptions | None) -> Request:
        """Make a request without a turn; params and options are copied by being frozen (E9)."""
        core = self._core
        core.require_owner("V87", "create_request")
        core.require_healthy()
        self.reclaim()
        params = GeneratorParams() if params is None else params
        require_type("V87", "params", params, GeneratorParams)
        if options is not None:
            require_type("V88", "options", options, RequestOptions)
        self._check_vocabulary(params.eos_token_ids or (), "eos_token_ids")
        asked = options.max_session_tokens if options else 0
        if asked > core.session_limit:
            limit = core.session_limit
            raise rules()["V88"].violation("max_session_tokens", str(asked), "limit", limit=limit)
        record = core.registry.add(params, asked or core.session_limit)
        request = Request(self, record)
        core.registry.watch(record.request_id, request)
        return request

    def begin_turn(
        self,
        record: RequestRecord,
        tokens: Sequence[int] | Int32Array,
        options: TurnOptions | None,
    ) -> TurnId:
        """Queue a turn; see Request.begin_turn."""
        core = self._core
        core.require_owner("V89", "begin_turn")
        core.require_healthy()
        self.reclaim()
        if options is not None:
            require_type("V89", "options", options, TurnOptions)
        self._require_idle(record)
        given = self._token_array(tokens)
        start = self._turn_start(record, given, options or TurnOptions())
        residents = core.residents
        residents.ensure_eos(len(start.eos))
        if record.resident >= 0:
            residents.ensure_capacity(start.sequence_tokens)
            row = record.resident
            residents.begin(row, given, start.sequence_tokens - len(given), start)
            residents.columns.state[row] = int(RequestState.ASSIGNED)
        else:
            sequence = np.concatenate((record.tokens, given))
            core.waiting.append(record.request_id, start.sequence_tokens, start.limit_tokens)
            record.tokens = sequence
            record.state = RequestState.ASSIGNED
        record.start = start
        record.turns = start.turn_id
        record.finish_reason = FinishReason.NONE
        return record.turn_id

    def cancel_turn(self, record: RequestRecord, turn_id: TurnId) -> bool:
        """End a turn early; see Request.cancel_turn."""
        core = self._core
        core.require_owner("V91", "cancel_turn")
        core.require_healthy()
        state = self.state_of(record)
        if record.turns == 0 or state is RequestState.CLOSED:
            found = "a closed one" if state is RequestState.CLOSED else "one before its first turn"
            raise rules()["V91"].violation("cancel_turn", found, "turn")
        if state not in _EXECUTABLE or turn_id != record.turn_id:
            return False
        terminal = self.end_turn(record, FinishReason.CANCELLED, ErrorCode.NONE)
        if not core.queue.merge_terminal(terminal):
            core.queue.append(terminal)
        return True

    def close(self, record: RequestRecord) -> None:
        """Close a request; see Request.close. Idempotent, legal in every state."""
        core = self._core
        if record.state is RequestState.CLOSED or core.closed:
            return
        core.require_owner("V89", "close")
        core.queue.purge(record.request_id)
        self._leave_waiting(record)
        row = record.resident
        record.drop()
        del core.registry.records[record.request_id]
        if row >= 0:
            core.residents.free(row)
            # A failed engine's cache is evidence, not a resource: nothing is given back (E78).
            if core.failure is None:
                core.cache.release(np.array([row], np.int32), core.step_in_flight)

    def reclaim(self) -> None:
        """Close every request whose last handle has died (E22); forgets dead handles."""
        registry = self._core.registry
        while registry.abandoned:
            request_id = registry.abandoned.popleft()
            registry.handles.pop(request_id, None)
            record = registry.records.get(request_id)
            if record is not None:
                self.close(record)

    def end_turn(self, record: RequestRecord, reason: FinishReason, code: ErrorCode) -> Int64Array:
        """Complete a running or waiting turn outside a step; return its terminal event (E18)."""
        core = self._core
        self._leave_waiting(record)
        if record.resident >= 0:
            row = record.resident
            core.residents.columns.state[row] = int(RequestState.TURN_COMPLETE)
            core.residents.changed()
            if core.failure is None:
                kept = core.residents.columns.committed_tokens[row : row + 1]
                core.cache.release(np.array([row], np.int32), core.step_in_flight, kept)
        else:
            record.state = RequestState.TURN_COMPLETE
        record.finish_reason = reason
        terminal = empty_columns(1)
        usage = self.usage_of(record)
        failed = reason is FinishReason.FAILED
        terminal[REQUEST] = record.request_id
        terminal[TURN] = record.turn_id
        terminal[FLAGS] = int(EventFlags.TURN_FINISHED | (EventFlags.FAILED if failed else 0))
        terminal[REASON] = int(reason)
        terminal[CODE] = int(code)
        terminal[PROMPT] = usage.prompt_tokens
        terminal[GENERATED] = usage.generated_tokens
        return terminal

    def state_of(self, record: RequestRecord) -> RequestState:
        """Return the request's state, from its row when it has one."""
        if self._core.closed:
            return RequestState.CLOSED
        if record.resident < 0:
            return record.state
        return RequestState(int(self._core.residents.columns.state[record.resident]))

    def usage_of(self, record: RequestRecord) -> Usage:
        """Return the tokens of the current or last turn."""
        if record.start is None:
            return Usage(0, 0, 0)
        generated = 0
        if record.resident >= 0:
            generated = int(self._core.residents.columns.turn_generated[record.resident])
        return Usage(record.start.prompt_tokens, generated, 0)

    def turn_of(self, record: RequestRecord) -> Turn | None:
        """Return the current or last turn as a record."""
        if record.start is None:
            return None
        state = self.state_of(record)
        return Turn(record.turn_id, state, record.finish_reason, self.usage_of(record))

    def tokens_of(self, record: RequestRecord) -> Int32Array:
        """Return a copy of the sequence."""
        if record.resident < 0:
            return record.tokens.copy()
        residents = self._core.residents
        length = residents.columns.sequence_tokens[record.resident]
        return residents.tokens[record.resident, :length].copy()

    def _require_idle(self, record: RequestRecord) -> None:
        state = self.state_of(record)
        rule = rules()["V89"]
        if state in (*_EXECUTABLE, RequestState.CLOSED):
            raise rule.violation("begin_turn", state.name, "idle")
        if self._core.queue.concerns(record.request_id):
            raise rule.violation("begin_turn", "one with events left", "events")
        if record.turns >= LAST_TURN_ID:
            raise rule.violation("begin_turn", "none left", "ids")

    def _token_array(self, tokens: Sequence[int] | Int32Array) -> Int32Array:
        try:
            given = np.asarray(tokens)
        except (ValueError, TypeError, RuntimeError) as error:  # ragged, or a tensor elsewhere
            raise InputUnusable("tokens", f"{error}", "a list of ids") from error
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise InputUnusable("tokens", f"{given.dtype} of rank {given.ndim}", "a list of ids")
        if not given.size:
            raise InputUnusable("tokens", "an empty input", "at least one token (V89)")
        self._check_vocabulary((int(given.min()), int(given.max())), "tokens")
        return given.astype(np.int32)

    def _check_vocabulary(self, ids: Sequence[int], name: str) -> None:
        size = self._core.decoder.vocab_size
        for token in ids:
            if not 0 <= token < size:
                raise InputUnusable(name, f"token id {token}", f"ids from 0 to {size - 1}")

    def _turn_start(
        self, record: RequestRecord, given: Int32Array, options: TurnOptions
    ) -> TurnStart:
        params = options.over(record.params)
        eos = self._core.decoder.eos_token_ids
        if params.eos_token_ids is not None:
            self._check_vocabulary(params.eos_token_ids, "eos_token_ids")
            eos = tuple(params.eos_token_ids)
        held = self._sequence_length(record)
        total = held + len(given)
        if total >= record.session_limit:
            room = max(0, record.session_limit - held - 1)
            problem = f"{len(given)} tokens after {held} leave no room for a generated one"
            allowed = f"at most {room}, the session limit is {record.session_limit} (V89)"
            raise InputUnusable("tokens", problem, allowed)
        seed = record.seed if options.seed is None else options.seed
        return TurnStart(
            turn_id=record.turns + 1,
            params=params,
            seed=seed,
            eos=() if params.ignore_eos else eos,
            prompt_tokens=len(given),
            sequence_tokens=total,
            session_limit=record.session_limit,
        )

    def _sequence_length(self, record: RequestRecord) -> int:
        if record.resident < 0:
            return len(record.tokens)
        return int(self._core.residents.columns.sequence_tokens[record.resident])

    def _leave_waiting(self, record: RequestRecord) -> None:
        if record.resident < 0 and record.state is RequestState.ASSIGNED:
            self._core.waiting.remove(np.array([record.request_id], np.int64))
