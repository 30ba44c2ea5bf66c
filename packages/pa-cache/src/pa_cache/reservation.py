"""Blocks held for one step: reserved, validated, prepared, then published or discarded."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import final

from pa_spec import ContractViolation, StepId, StepPlan, TableDelta, Violation

from pa_cache.claim import make_claim, project
from pa_cache.state import CacheState
from pa_cache.step_check import check_step


class ReservationState(Enum):
    """Where a reservation is in its life."""

    RESERVED = "Reserved"
    PREPARED = "Prepared"
    PUBLISHED = "Published"
    DISCARDED = "Discarded"


@final
class PagedReservation:
    """One step's hold on a cache, made by `PagedCacheManager.reserve`.

    Legal order: Reserved → `prepare` → Prepared → `publish` → Published; `discard` from Reserved
    and Prepared, and again from Discarded, where it does nothing. Only the oldest live
    reservation is prepared and published; discarding one discards all later ones. `validate` may
    be called at any time, any number of times.

    Committed state changes in `publish` alone. Any other call in the wrong order raises
    ContractViolation (E79) and changes nothing.
    """

    __slots__ = ("_cache", "_plan", "_state", "_step_id", "claim")

    def __init__(self, cache: CacheState, step_id: StepId, plan: StepPlan) -> None:
        self._cache = cache
        self._step_id = step_id
        self._plan = plan
        self._state = ReservationState.RESERVED
        if not cache.live:
            cache.expected_generation = cache.pool.generation
        self.claim = make_claim(cache, plan)
        cache.live.append(self)

    def __repr__(self) -> str:
        claim = self.claim
        return (
            f"PagedReservation(step {self._step_id}, {self._state.value}, {len(claim.rows)} rows, "
            f"{len(claim.block_ids)} blocks)"
        )

    @property
    def step_id(self) -> StepId:
        """The step that it was made for."""
        return self._step_id

    @property
    def state(self) -> ReservationState:
        """Where it is in its life."""
        return self._state

    @property
    def table(self) -> TableDelta:
        """Table entries that the step may write; committed state does not show them (E62)."""
        return self.claim.table

    def validate(self) -> Sequence[Violation]:
        """Return every broken promise that `publish` relies on; changes nothing (E81).

        Reads touched rows and reserved blocks only, however long the committed context is.
        """
        return check_step(self._cache, self)

    @property
    def plan(self) -> StepPlan:
        """The plan that it was made for."""
        return self._plan

    def prepare(self) -> None:
        """Do the last fallible work: make sure that publishing is this reservation's turn (E76)."""
        self._require(ReservationState.RESERVED)
        self._state = ReservationState.PREPARED

    def publish(self) -> None:
        """Make the reservation committed state: assignments that cannot fail (E79).

        Raises ContractViolation, changing nothing, unless it is prepared and the oldest.
        """
        self._require(ReservationState.PREPARED)
        cache, claim, plan = self._cache, self.claim, self._plan
        tables = cache.tables
        tables.committed_tokens[claim.rows] = plan.target_tokens
        if len(claim.block_ids):
            tables.num_blocks[claim.rows] = claim.blocks_after
            cache.pool.commit(claim.block_ids)
            cache.expected_generation += 1
            cache.peak_blocks = max(cache.peak_blocks, cache.pool.committed)
        if claim.num_new:
            tables.request[claim.rows] = plan.request
        if claim.promised_blocks is not None:
            tables.promised_blocks[claim.rows] = claim.promised_blocks
        cache.live.pop(0)
        self._state = ReservationState.PUBLISHED

    def discard(self) -> None:
        """Give everything back, and with it every later reservation; idempotent (E84).

        Raises ContractViolation once it is published.
        """
        if self._state is ReservationState.DISCARDED:
            return
        if self._state is ReservationState.PUBLISHED:
            raise ContractViolation("E84", "reservation", "one that is not published", f"{self!r}")
        live = self._cache.live
        # Later reservations were made on top of this one's growth.
        while live[-1] is not self:
            live[-1].discard()
        live.pop()
        self._cache.pool.discard(len(self.claim.block_ids))
        project(self._cache.tables, self.claim, [each.claim for each in live])
        self._state = ReservationState.DISCARDED

    def _require(self, state: ReservationState) -> None:
        live = self._cache.live
        if self._state is not state or live[0] is not self:
            oldest = f", oldest live is {live[0]!r}" if live else ""
            raise ContractViolation(
                "E79", "reservation", f"{state.value} and the oldest", f"{self!r}{oldest}"
            )
