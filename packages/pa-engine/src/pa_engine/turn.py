"""A turn as its owner sees it: a read-only record."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec import FinishReason, RequestState, TurnId

from pa_engine.events import Usage


@dataclass(frozen=True, slots=True)
class Turn:
    """The current or last turn of a request, as it stood when it was asked for."""

    turn_id: TurnId
    state: RequestState
    finish_reason: FinishReason
    usage: Usage
