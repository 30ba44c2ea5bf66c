"""What the engine keeps of one request: the part that is not in the resident arrays."""

from __future__ import annotations

import numpy as np
from pa_spec import FinishReason, Int32Array, RequestId, RequestState, TurnId

from pa_engine.options import GeneratorParams, fresh_seed
from pa_engine.residents import TurnStart

_NO_TOKENS: Int32Array = np.zeros(0, np.int32)


class RequestRecord:
    """One request. Life: see RequestState (E7, E8).

    resident: row in the resident table, -1 while it owns none. state: the state of a request
    without a row; with one the table's column is the truth. tokens: [·] the sequence of a
    request without a row; with one the mirror is. start: the values of the current turn, None
    before the first. turns: ids given so far (E12).
    """

    __slots__ = (
        "finish_reason",
        "params",
        "request_id",
        "resident",
        "seed",
        "session_limit",
        "start",
        "state",
        "tokens",
        "turns",
    )

    def __init__(self, request_id: RequestId, params: GeneratorParams, session_limit: int) -> None:
        self.request_id = request_id
        self.params = params
        self.session_limit = session_limit
        self.seed = fresh_seed() if params.seed is None else params.seed
        self.resident = -1
        self.state = RequestState.UNASSIGNED
        self.tokens = _NO_TOKENS
        self.start: TurnStart | None = None
        self.turns = 0
        self.finish_reason = FinishReason.NONE

    @property
    def turn_id(self) -> TurnId:
        """Id of the current or last turn, 0 before the first."""
        return TurnId(self.turns)

    def admit(self, row: int) -> None:
        """Note that the request now lives in a row of the resident table."""
        self.resident = row
        self.state = RequestState.ACTIVE
        self.tokens = _NO_TOKENS

    def drop(self) -> None:
        """Become a closed tombstone."""
        self.resident = -1
        self.state = RequestState.CLOSED
        self.tokens = _NO_TOKENS
        self.start = None
