"""Every check of `check_all` reports a planted corruption; see corruption.py for the form.

The cache has two residents, a block in quarantine and one held outside tables, and a live
reservation.
"""

from __future__ import annotations

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, ids, plan_of
from corruption import Corruption, Register, checks_of
from pa_cache import PagedCacheManager, PagedReservation
from pa_spec import CheckScope, StepId

REGISTER = Register()
plants = REGISTER.plants


def busy_cache() -> tuple[PagedCacheManager, PagedReservation]:
    cache = cache_of(12)
    admit(cache, 16, 10, 16)
    cache.share(cache.tables.block_id[0, :1])
    cache.release(ids(2), StepId(5))
    rows = [Row(0, 100, 16, limit=60), Row(3, 102, tokens=20, is_new=True)]
    return cache, cache.reserve(StepId(6), plan_of(rows))


@plants("pool.bounds", "pool.conservation", "pool.reserved")
def put_top_over_the_end(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.top = 13


@plants("pool.conservation", "pool.committed_count")
def miscount_the_committed(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.committed += 1


@plants("pool.committed_count", "pool.conservation", "pool.single_state", "pool.reference_count")
def lose_a_count(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.reference_count[cache.tables.block_id[1, 0]] = 0
    cache.pool.committed += 1


@plants("pool.reserved", "pool.single_state")
def let_others_have_a_reserved_block(
    cache: PagedCacheManager, reservation: PagedReservation
) -> None:
    # The same block once more on the stack, so that the counters agree with each other.
    cache.pool.available += 1
    cache.pool.free[0] = cache.pool.free[1]


@plants("pool.generation")
def change_the_pool_directly(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    owned = cache.tables.block_id[0, :1]
    cache.pool.share(owned)
    cache.pool.release(owned, StepId(0))


@plants("pool.range")
def put_a_wild_id_on_the_stack(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.free[0] = 12


@plants("pool.range")
def put_a_wild_id_in_quarantine(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.quarantine[0] = -1


@plants("pool.single_state")
def put_a_committed_block_on_the_stack(
    cache: PagedCacheManager, reservation: PagedReservation
) -> None:
    cache.pool.free[0] = cache.tables.block_id[1, 0]


@plants("pool.single_state")
def quarantine_a_free_block(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.quarantine[0] = cache.pool.free[0]


@plants("pool.reference_count")
def forget_a_hold(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.block_id[1, 0] = cache.tables.block_id[0, 0]


@plants("pool.reference_count")
def count_a_holder_too_many(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.reference_count[cache.tables.block_id[1, 0]] = 2


@plants("pool.quarantine")
def keep_a_block_of_an_ended_step(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.ended_step = 5


@plants("reserved.held")
def swap_a_block_on_the_stack(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    free, top = cache.pool.free, cache.pool.top
    free[[0, top - 1]] = free[[top - 1, 0]]


@plants("row.capacity")
def commit_more_than_is_owned(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.committed_tokens[1] = 17


@plants("row.capacity")
def commit_less_than_nothing(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.committed_tokens[1] = -1


@plants("row.vacant")
def forget_an_owner(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.request[1] = -1


@plants("row.vacant", "row.projection")
def promise_to_nobody(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.promised_blocks[2] = 1


@plants("row.unique_request")
def let_a_request_be_resident_twice(
    cache: PagedCacheManager, reservation: PagedReservation
) -> None:
    cache.tables.request[1] = 100


@plants("row.projection")
def lose_projected_growth(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.projected_blocks[3] = 0


@plants("row.projection")
def lose_a_projected_promise(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.projected_promised[0] = 0


@plants("table.range")
def lose_a_committed_entry(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.block_id[1, 0] = -1


@plants("table.unique")
def hold_a_block_twice(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    # A second entry with a hold of its own, so that only the repetition is wrong.
    reservation.discard()
    cache.tables.block_id[1, 1] = cache.tables.block_id[1, 0]
    cache.tables.num_blocks[1] = cache.tables.projected_blocks[1] = 2
    cache.pool.reference_count[cache.tables.block_id[1, 0]] = 2


@plants("table.width", "row.capacity", "row.projection")
def own_less_than_nothing(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.num_blocks[1] = -1


@plants("table.width", "row.projection")
def own_more_than_a_table_holds(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.num_blocks[1] = 13


@pytest.mark.spec("E64")
@pytest.mark.parametrize("case", REGISTER.cases, ids=str)
def test_a_planted_corruption_is_reported(case: Corruption) -> None:
    cache, reservation = busy_cache()
    assert cache.audit.check_all() == []

    case.plant(cache, reservation)
    found = cache.audit.check_all()

    assert {each.check_id for each in found} == {case.check_id, *case.others}
    assert all("{" not in each.found for each in found)


def test_every_check_of_a_full_scan_has_a_planted_corruption() -> None:
    assert REGISTER.check_ids == set(checks_of(CheckScope.ALL, CheckScope.BOTH))


def test_a_scan_changes_nothing() -> None:
    cache, reservation = busy_cache()
    before, usage = cache.audit.snapshot(), cache.usage

    cache.audit.check_all()

    assert (cache.audit.snapshot(), cache.usage) == (before, usage)
    assert reservation.validate() == []


def test_a_reservation_whose_row_was_released_is_no_violation_of_the_cache() -> None:
    cache, reservation = busy_cache()

    cache.release(ids(0), StepId(6))
    found = cache.audit.check_all()
    reservation.discard()

    assert found == []
    assert cache.audit.check_all() == []
    assert np.count_nonzero(cache.tables.num_blocks) == 1
