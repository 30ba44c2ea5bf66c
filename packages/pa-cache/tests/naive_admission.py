"""Admission as contract E43 to E48 tell it: one candidate after another, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cache_steps import BLOCK_SIZE, Row
from pa_cache import PagedCacheManager
from pa_spec import StepLimits


@dataclass
class NaiveAdmission:
    """Positions of candidates by what becomes of them."""

    selected: list[int]
    resident: list[int]
    deferred: list[int]
    unserviceable: list[int]


def naive_admission(
    cache: PagedCacheManager, rows: Sequence[Row], free: Sequence[int], limits: StepLimits
) -> NaiveAdmission:
    """Decide for each candidate by what those before it left."""
    found = NaiveAdmission([], [], [], [])
    room = cache.usage.free
    # A row that asks for no new promise runs even where promises were made without this mode.
    unpromised = max(room - outstanding(cache), 0)
    free_residents = list(free)
    for place, row in enumerate(rows):
        owned = int(cache.tables.num_blocks[row.resident]) if row.resident >= 0 else 0
        promised = int(cache.tables.promised_blocks[row.resident]) if row.resident >= 0 else 0
        wanted = blocks(max(row.sequence, row.past + 1))
        growth = max(wanted - owned, 0)
        promise = 0
        if limits.reserve_turn_limit:
            wanted = max(wanted, blocks(row.limit))
            promise = max(wanted - max(owned, promised), 0)
        if wanted > cache.num_blocks or wanted > cache.geometry.table_columns:
            found.unserviceable.append(place)
        elif (
            len(found.selected) == min(limits.max_scheduled_tokens, limits.max_batch_size)
            or (row.resident < 0 and not free_residents)
            or growth > room
            or (limits.reserve_turn_limit and promise > unpromised)
        ):
            found.deferred.append(place)
        else:
            found.selected.append(place)
            found.resident.append(row.resident if row.resident >= 0 else free_residents.pop(0))
            room -= growth
            unpromised -= promise
    return found


def outstanding(cache: PagedCacheManager) -> int:
    """Return the blocks that residents are promised and do not own yet."""
    tables = cache.tables
    pairs = zip(tables.promised_blocks.tolist(), tables.num_blocks.tolist(), strict=True)
    return sum(max(promised - owned, 0) for promised, owned in pairs)


def blocks(tokens: int) -> int:
    """Return the blocks of so many tokens."""
    return (tokens + BLOCK_SIZE - 1) // BLOCK_SIZE
