"""A register of planted corruptions: what each breaks, and all that is reported of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cache_steps import Row, admit, cache_of, plan_of
from pa_cache import PagedCacheManager, PagedReservation
from pa_spec import Check, CheckScope, StepId, checks

Plant = Callable[[PagedCacheManager, PagedReservation], PagedReservation | None]
"""Breaks one thing; returns another reservation to validate, None = the one given."""


@dataclass(frozen=True)
class Corruption:
    """check_id: the check that it aims at. others: every check reported together with it."""

    check_id: str
    others: tuple[str, ...]
    plant: Plant

    def __str__(self) -> str:
        return f"{self.check_id}-{self.plant.__name__}"


@dataclass
class Register:
    """Corruptions in the order in which they are written down."""

    cases: list[Corruption] = field(default_factory=list)

    def plants(self, check_id: str, *others: str) -> Callable[[Plant], Plant]:
        def add(plant: Plant) -> Plant:
            self.cases.append(Corruption(check_id, others, plant))
            return plant

        return add

    @property
    def check_ids(self) -> set[str]:
        return {case.check_id for case in self.cases}


def checks_of(*scopes: CheckScope) -> dict[str, Check]:
    """Return the cache's checks of these scopes by id."""
    every = checks().values()
    return {each.id: each for each in every if each.owner == "cache" and each.scope in scopes}


def valid_step() -> tuple[PagedCacheManager, PagedReservation]:
    """Residents 0 and 1 decode, 0 into a new block; resident 2 is new and needs two blocks."""
    cache = cache_of(12)
    admit(cache, 16, 10)
    rows = [Row(0, 100, 16), Row(1, 101, 10), Row(2, 102, tokens=20, is_new=True)]
    return cache, cache.reserve(StepId(2), plan_of(rows))


def change_claim(reservation: PagedReservation, **changes: Any) -> None:
    reservation.claim = replace(reservation.claim, **changes)
