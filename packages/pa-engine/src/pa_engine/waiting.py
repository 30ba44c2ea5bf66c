"""Requests that have a turn but no place yet, in order of submission, as arrays."""

from __future__ import annotations

import numpy as np
from pa_spec import Int32Array, Int64Array, RequestId, WaitingView

_FIRST_CAPACITY = 64
_REQUEST, _SEQUENCE, _LIMIT = range(3)


class WaitingQueue:
    """First in, first out, except that any request may leave from the middle."""

    def __init__(self) -> None:
        self._columns: Int64Array = np.zeros((3, _FIRST_CAPACITY), np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> Int64Array:
        """[3, w] ids, sequence tokens and limit tokens."""
        return self._columns[:, : self._count]

    @property
    def requests(self) -> Int64Array:
        """[w] ids in order of submission."""
        return self._columns[_REQUEST, : self._count]

    def append(self, request: RequestId, sequence_tokens: int, limit_tokens: int) -> None:
        """Add a request at the end; grows by doubling."""
        if self._count == self._columns.shape[1]:
            self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
        self._columns[:, self._count] = request, sequence_tokens, limit_tokens
        self._count += 1

    def remove(self, requests: Int64Array) -> None:
        """Take these requests out; ids that are not waiting are ignored."""
        live = self._columns[:, : self._count]
        kept = live[:, ~np.isin(live[_REQUEST], requests)]
        # A plan may be made of slices of an earlier view, so that one is left as it is.
        self._columns = np.zeros_like(self._columns)
        self._columns[:, : kept.shape[1]] = kept
        self._count = kept.shape[1]

    def view(self, free_rows: Int32Array) -> WaitingView:
        """Return what planning sees.

        Without a free row nobody can be admitted, so the head alone stands for the queue: it
        makes a plan that runs nothing report a deferral instead of no work (E47).
        """
        count = self._count if len(free_rows) else min(self._count, 1)
        live = self._columns[:, :count]
        return WaitingView(live[_REQUEST], live[_SEQUENCE], live[_LIMIT], free_rows)
