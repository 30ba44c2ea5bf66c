"""Events as columns: one batch for a step, built into objects only where somebody looks."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from pa_spec import (
    NO_TOKEN,
    NO_TURN,
    ErrorCode,
    EventFlags,
    FinishReason,
    Int64Array,
    RequestId,
    TurnId,
)

if TYPE_CHECKING:
    from pa_engine.request import Request

NO_REQUEST = -1
"""The request column's value on events that concern no request."""

TOKEN, REQUEST, TURN, FLAGS, REASON, CODE, PROMPT, GENERATED, CACHED = range(9)
"""Rows of a batch's column matrix."""

NUM_COLUMNS = 9

Handles = Mapping[int, "weakref.ref[Request]"]


class Usage(NamedTuple):
    """Tokens of one turn: accepted as input, appended as output, found in the cache."""

    prompt_tokens: int
    generated_tokens: int
    cached_prompt_tokens: int


class Event(NamedTuple):
    """One thing that happened. Test the bits of flags; they say which payload is valid.

    request is the caller's own handle, or None when the event concerns no request or the handle
    is gone.
    """

    flags: EventFlags
    request: Request | None
    turn_id: TurnId
    token: int
    finish_reason: FinishReason
    error_code: ErrorCode
    usage: Usage


class EventBatch(Sequence[Event]):
    """Events in the order in which they happened; indexing builds one.

    columns: [9, n] int64, one row for each name above. A batch holds no handle (E22).
    """

    __slots__ = ("_handles", "columns")

    def __init__(self, columns: Int64Array, handles: Handles) -> None:
        self.columns = columns
        self._handles = handles

    @property
    def tokens(self) -> Int64Array:
        """[n] generated tokens, -1 on events without one."""
        row: Int64Array = self.columns[TOKEN]
        return row

    @property
    def requests(self) -> Int64Array:
        """[n] ids of the requests, -1 on events that concern none."""
        row: Int64Array = self.columns[REQUEST]
        return row

    @property
    def turns(self) -> Int64Array:
        """[n] turn ids, 0 where there is no turn."""
        row: Int64Array = self.columns[TURN]
        return row

    @property
    def flags(self) -> Int64Array:
        """[n] EventFlags."""
        row: Int64Array = self.columns[FLAGS]
        return row

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> EventBatch: ...

    def __getitem__(self, index: int | slice) -> Event | EventBatch:
        if isinstance(index, slice):
            return EventBatch(self.columns[:, index], self._handles)
        column = self.columns[:, index].tolist()
        reference = self._handles.get(column[REQUEST])
        return Event(
            EventFlags(column[FLAGS]),
            reference() if reference is not None else None,
            TurnId(column[TURN]),
            column[TOKEN],
            FinishReason(column[REASON]),
            ErrorCode(column[CODE]),
            Usage(column[PROMPT], column[GENERATED], column[CACHED]),
        )

    def __iter__(self) -> Iterator[Event]:
        for index in range(len(self)):
            yield self[index]

    def __repr__(self) -> str:
        return f"EventBatch({list(self)!r})"


class EventBuffer(EventBatch):
    """A batch of bounded size that one engine fills again and again (E33).

    Every validated `run` with it replaces its content; events taken from it earlier are copies
    and stay valid.
    """

    __slots__ = ("capacity", "owner")

    def __init__(self, capacity: int, owner: weakref.ref[object], handles: Handles) -> None:
        super().__init__(empty_columns(0), handles)
        self.capacity = capacity
        self.owner = owner


def empty_columns(count: int) -> Int64Array:
    """Return [9, count] columns without token, request, turn, reason or code."""
    columns = np.zeros((NUM_COLUMNS, count), np.int64)
    columns[TOKEN] = NO_TOKEN
    columns[REQUEST] = NO_REQUEST
    return columns


def engine_event(flags: EventFlags, code: ErrorCode) -> Int64Array:
    """Return the columns of one event that concerns no request."""
    columns = empty_columns(1)
    columns[TURN] = NO_TURN
    columns[FLAGS] = int(flags)
    columns[CODE] = int(code)
    return columns


class EventQueue:
    """Events that have happened and wait to be delivered, first in first out (E32)."""

    __slots__ = ("_handles", "columns")

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self.columns = empty_columns(0)

    def __len__(self) -> int:
        return len(self.columns[0])

    def append(self, columns: Int64Array) -> None:
        """Add events behind the others."""
        self.columns = np.concatenate((self.columns, columns), axis=1) if len(self) else columns

    def drain(self, capacity: int) -> Int64Array:
        """Remove and return the first `capacity` events."""
        taken, self.columns = self.columns[:, :capacity], self.columns[:, capacity:]
        return taken

    def purge(self, request: RequestId) -> None:
        """Forget every event of a closed request (E20)."""
        if len(self):
            self.columns = self.columns[:, self.columns[REQUEST] != request]

    def concerns(self, request: RequestId) -> bool:
        """Whether an undelivered event of this request exists (V89)."""
        return bool(len(self)) and bool((self.columns[REQUEST] == request).any())

    def merge_terminal(self, terminal: Int64Array) -> bool:
        """Merge a terminal event into the newest undelivered token event of its turn (E19)."""
        own = (self.columns[REQUEST] == terminal[REQUEST]) & (self.columns[TURN] == terminal[TURN])
        places = np.flatnonzero(own)
        if not len(places):
            return False
        columns = self.columns.copy()
        last = places[-1]
        columns[FLAGS, last] |= terminal[FLAGS, 0]
        columns[REASON:, last] = terminal[REASON:, 0]
        self.columns = columns
        return True
