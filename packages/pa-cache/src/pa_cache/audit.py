"""Looks into a cache without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from pa_spec import Int32Array, Int64Array, Violation

from pa_cache.full_check import check_all
from pa_cache.snapshot import CacheSnapshot, take_snapshot
from pa_cache.state import CacheState


@final
class PagedCacheAudit:
    """The view of a cache for tests, rollback checks and diagnosis (`pa_spec.CacheAudit`)."""

    __slots__ = ("_state",)

    def __init__(self, state: CacheState) -> None:
        self._state = state

    def snapshot(self) -> CacheSnapshot:
        """Return committed state as a value that compares equal when nothing changed."""
        return take_snapshot(self._state)

    def check_all(self) -> Sequence[Violation]:
        """Scan everything for broken invariants (E64)."""
        return check_all(self._state)

    def committed(self, resident: Int32Array) -> Int64Array:
        """Return the committed tokens of these residents, [len(resident)] (E65)."""
        return self._state.tables.committed_tokens[resident.astype(np.intp)]
