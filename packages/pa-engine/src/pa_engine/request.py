"""The caller's handle of a request."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, final

from pa_spec import Int32Array, RequestId, RequestState, TurnId, rules

from pa_engine.options import TurnOptions
from pa_engine.record import RequestRecord
from pa_engine.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pa_engine.lifecycle import RequestLifecycle


@final
class Request:
    """One sequence that an engine continues turn by turn.

    Made by Engine.create_request. All calls belong to the engine's owner thread; only the handle
    itself may die elsewhere, and then the request closes at the engine's next call (E3, E22).
    When the engine is gone the handle is a closed tombstone (E23).
    """

    __slots__ = ("__weakref__", "_lifecycle", "_record")

    def __init__(self, lifecycle: RequestLifecycle, record: RequestRecord) -> None:
        self._lifecycle = weakref.ref(lifecycle)
        self._record = record

    @property
    def id(self) -> RequestId:
        """The number that stands for this request in the columns of event batches."""
        return self._record.request_id

    @property
    def state(self) -> RequestState:
        """Where the request is in its life (E7)."""
        lifecycle = self._lifecycle()
        return RequestState.CLOSED if lifecycle is None else lifecycle.state_of(self._record)

    @property
    def turn(self) -> Turn | None:
        """The current or last turn, None before the first and after close."""
        lifecycle = self._lifecycle()
        return None if lifecycle is None else lifecycle.turn_of(self._record)

    @property
    def tokens(self) -> Int32Array:
        """A copy of the whole sequence: input and generated tokens of every turn (E29)."""
        return self._living("V89", "tokens").tokens_of(self._record)

    def begin_turn(
        self, tokens: Sequence[int] | Int32Array, options: TurnOptions | None = None
    ) -> TurnId:
        """Queue input and return the id of the turn that will answer it (E10, E12).

        tokens: one or more ids of the vocabulary, copied. Raises ContractViolation (V89) when the
        request is closed, has a turn already or an event nobody has taken yet, InputUnusable when
        the ids are not in the vocabulary or leave no room for one generated token; nothing has
        changed then.
        """
        return self._living("V89", "begin_turn").begin_turn(self._record, tokens, options)

    def cancel_turn(self, turn_id: TurnId | int) -> bool:
        """End the named turn where it stands; what is committed stays (E19).

        Returns False, and does nothing, for a turn that is over or never was. Raises
        ContractViolation (V91) before the first turn and after close.
        """
        return self._living("V91", "cancel_turn").cancel_turn(self._record, TurnId(turn_id))

    def close(self) -> None:
        """End the request, drop its undelivered events and give back all that it owns (E20)."""
        lifecycle = self._lifecycle()
        if lifecycle is not None:
            lifecycle.close(self._record)

    def _living(self, rule: str, call: str) -> RequestLifecycle:
        lifecycle = self._lifecycle()
        if lifecycle is None:
            raise rules()[rule].violation(call, "one that is gone", "closed")
        return lifecycle

    def __repr__(self) -> str:
        return f"Request(id={self.id}, state={self.state.name}, turn={self.turn})"
