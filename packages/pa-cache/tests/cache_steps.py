"""Plans and candidates in one line, for tests of the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pa_cache import CacheGeometry, PagedCacheManager, PagedReservation
from pa_spec import Candidates, Int32Array, StepId, StepPlan

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Row:
    """One row of a step, or one candidate.

    resident: -1 for a candidate that has none. sequence, limit: 0 = what the step reaches.
    """

    resident: int
    request: int
    past: int = 0
    tokens: int = 1
    is_new: bool = False
    sequence: int = 0
    limit: int = 0
    is_prefill: bool = False

    @property
    def target(self) -> int:
        return self.past + self.tokens


def cache_of(num_blocks: int, max_batch_size: int = 4, columns: int = 0) -> PagedCacheManager:
    """Make a cache of blocks of 16 tokens, its tables as wide as the pool unless said."""
    geometry = CacheGeometry(num_blocks, BLOCK_SIZE, max_batch_size, columns or num_blocks)
    return PagedCacheManager(geometry)


def plan_of(rows: Sequence[Row]) -> StepPlan:
    """Make the plan of a step; the parts that a cache does not read are plausible."""
    tokens = np.array([row.tokens for row in rows], np.int32)
    places = np.arange(len(rows) + 1, dtype=np.int32)
    return StepPlan(
        request=np.array([row.request for row in rows], np.int64),
        resident=np.array([row.resident for row in rows], np.int32),
        rank=places[:-1],
        tokens=tokens,
        packed_offset=(np.cumsum(tokens) - tokens).astype(np.int32),
        past_tokens=np.array([row.past for row in rows], np.int64),
        target_tokens=np.array([row.target for row in rows], np.int64),
        is_prefill=np.array(
            [row.is_new or row.tokens > 1 or row.is_prefill for row in rows], np.bool_
        ),
        is_new=np.array([row.is_new for row in rows], np.bool_),
        drafts=None,
        logits_rows=places[:-1],
        logits_offsets=places,
        deferred=np.zeros(0, np.int64),
        unserviceable=np.zeros(0, np.int64),
        total_tokens=int(tokens.sum()),
        table_columns=1,
        padded_rows=len(rows),
        capture_key=0,
        sequence_tokens=np.array([row.sequence or row.target for row in rows], np.int64),
        limit_tokens=np.array([row.limit or row.sequence or row.target for row in rows], np.int64),
    )


def candidates_of(rows: Sequence[Row], free_resident: Sequence[int] = ()) -> Candidates:
    """Make candidates; `past` is what is committed, `tokens` is not read."""
    sequence = [row.sequence or row.past + 1 for row in rows]
    return Candidates(
        resident=np.array([row.resident for row in rows], np.int32),
        request=np.array([row.request for row in rows], np.int64),
        committed_tokens=np.array([row.past for row in rows], np.int64),
        sequence_tokens=np.array(sequence, np.int64),
        limit_tokens=np.array(
            [row.limit or tokens for row, tokens in zip(rows, sequence, strict=True)], np.int64
        ),
        is_prefill=np.array([row.past + 1 < row.sequence for row in rows], np.bool_),
        free_resident=np.array(free_resident, np.int32),
    )


def publish(reservation: PagedReservation) -> None:
    """Validate, prepare and publish, as an engine does."""
    assert reservation.validate() == []
    reservation.prepare()
    reservation.publish()


def run_step(cache: PagedCacheManager, step_id: int, *rows: Row) -> PagedReservation:
    """Run one whole step."""
    reservation = cache.reserve(StepId(step_id), plan_of(rows))
    publish(reservation)
    cache.end_step(StepId(step_id))
    return reservation


def admit(cache: PagedCacheManager, *prompts: int) -> None:
    """Make request 100 + r resident at r with a prompt of prompts[r] tokens, in step 1."""
    rows = [
        Row(resident, 100 + resident, tokens=tokens, is_new=True)
        for resident, tokens in enumerate(prompts)
    ]
    run_step(cache, 1, *rows)


def ids(*values: int) -> Int32Array:
    return np.array(values, np.int32)
