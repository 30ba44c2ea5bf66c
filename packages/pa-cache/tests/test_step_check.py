"""Every check of `validate` reports a planted corruption.

Each case takes a valid step, breaks one thing behind the cache's back, and lists the complete
report: the check that it aims at, then those that cannot but see the same corruption.
"""

from __future__ import annotations

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, ids, plan_of
from corruption import Corruption, Register, change_claim, checks_of, valid_step
from pa_cache import PagedCacheManager, PagedReservation
from pa_spec import CheckScope, StepId, TableDelta

REGISTER = Register()
plants = REGISTER.plants


@plants("reservation.live")
def discard_it(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.discard()


@plants("reservation.live")
def publish_it(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.prepare()
    reservation.publish()


@plants("reservation.order")
def validate_a_later_one(
    cache: PagedCacheManager, reservation: PagedReservation
) -> PagedReservation:
    return cache.reserve(StepId(3), plan_of([Row(1, 101, 10)]))


@plants("pool.bounds", "pool.reserved")
def put_available_over_top(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.available = cache.pool.top + 1


@plants("pool.conservation")
def miscount_the_committed(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.committed += 1


@plants("pool.reserved")
def let_others_have_a_reserved_block(
    cache: PagedCacheManager, reservation: PagedReservation
) -> None:
    cache.pool.available += 1


@plants("pool.generation")
def change_the_pool_directly(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    owned = cache.tables.block_id[0, :1]
    cache.pool.share(owned)
    cache.pool.release(owned, StepId(0))


@plants("plan.rows")
def name_another_resident(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.plan.resident[1] = 3


@plants("plan.unique_rows")
def name_a_resident_twice(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.plan.resident[1] = 0
    reservation.claim.rows[1] = 0


@plants("row.request")
def change_an_owner(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.request[1] = 77


@plants("row.request")
def let_a_new_row_have_an_owner(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.request[2] = 102


@plants("row.generation", "row.request", "row.past_tokens", "row.num_blocks")
def release_a_row(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.release(ids(1), StepId(0))


@plants("row.generation")
def end_a_turn(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.release(ids(1), StepId(0), np.array([10]))


@plants("row.past_tokens")
def move_a_boundary(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.committed_tokens[1] = 9


@plants("row.capacity", "row.past_tokens")
def commit_more_than_is_owned(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.committed_tokens[1] = 17


@plants("row.target_tokens")
def aim_beyond_the_blocks(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.plan.target_tokens[1] = 17


@plants("row.target_tokens")
def stand_still(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    reservation.plan.target_tokens[1] = 10


@plants("row.num_blocks")
def take_a_block_along(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.num_blocks[1] = 2


@plants("row.exclusive")
def share_a_block_that_is_written(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.share(cache.tables.block_id[1, :1])


@plants("table.range")
def lose_the_block_that_is_written(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.block_id[1, 0] = -1


@plants("table.places")
def move_an_entry(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    table = reservation.table
    column = table.column + np.int32(1)
    change_claim(reservation, table=TableDelta(table.resident, column, table.block_id))


@plants("table.places")
def forget_an_entry(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    table = reservation.table
    short = TableDelta(table.resident[:-1], table.column[:-1], table.block_id[:-1])
    change_claim(reservation, table=short)


@plants("table.provisional")
def overwrite_an_entry(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.tables.block_id[2, 1] = -1


@plants("reserved.count", "pool.reserved", "reserved.held")
def lose_a_reserved_block(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    change_claim(reservation, block_ids=reservation.claim.block_ids[:-1])


@plants("reserved.range", "table.provisional", "reserved.held")
def reserve_no_block_of_the_pool(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    block_ids = reservation.claim.block_ids.copy()
    block_ids[0] = 12
    change_claim(reservation, block_ids=block_ids)


@plants("reserved.unique", "table.provisional", "reserved.held")
def reserve_a_block_twice(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    block_ids = reservation.claim.block_ids.copy()
    block_ids[0] = block_ids[1]
    change_claim(reservation, block_ids=block_ids)


@plants("reserved.empty")
def give_a_reserved_block_a_holder(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    cache.pool.reference_count[reservation.claim.block_ids[0]] = 1


@plants("reserved.held")
def swap_a_block_on_the_stack(cache: PagedCacheManager, reservation: PagedReservation) -> None:
    free, top = cache.pool.free, cache.pool.top
    free[[0, top - 1]] = free[[top - 1, 0]]


@pytest.mark.spec("E81")
@pytest.mark.parametrize("case", REGISTER.cases, ids=str)
def test_a_planted_corruption_is_reported(case: Corruption) -> None:
    cache, reservation = valid_step()
    assert reservation.validate() == []

    other = case.plant(cache, reservation)
    found = (other or reservation).validate()

    assert {each.check_id for each in found} == {case.check_id, *case.others}
    assert all("{" not in each.found for each in found)


def test_every_check_of_a_step_has_a_planted_corruption() -> None:
    assert REGISTER.check_ids == set(checks_of(CheckScope.STEP, CheckScope.BOTH))


@pytest.mark.spec("E81")
def test_validation_changes_nothing_and_can_be_repeated() -> None:
    cache, reservation = valid_step()
    before, usage = cache.audit.snapshot(), cache.usage

    reports = [reservation.validate() for _ in range(3)]

    assert reports == [[], [], []]
    assert (cache.audit.snapshot(), cache.usage) == (before, usage)


@pytest.mark.spec("E82")
@pytest.mark.parametrize("last_step", [0, 9])
def test_releasing_a_resident_outside_the_step_leaves_it_valid(last_step: int) -> None:
    cache = cache_of(12)
    admit(cache, 16, 40)
    reservation = cache.reserve(StepId(10), plan_of([Row(0, 100, 16)]))

    cache.release(ids(1), StepId(last_step))
    cache.end_step(StepId(9))

    assert reservation.validate() == []
    reservation.prepare()
    reservation.publish()
    assert cache.usage.free == 10
    assert cache.audit.check_all() == []


@pytest.mark.spec("E82")
def test_what_changed_the_pool_before_a_reservation_does_not_void_it() -> None:
    cache = cache_of(12)
    admit(cache, 16)
    owned = cache.tables.block_id[0, :1]
    cache.pool.share(owned)
    cache.pool.release(owned, StepId(0))

    assert cache.reserve(StepId(2), plan_of([Row(0, 100, 16)])).validate() == []


@pytest.mark.spec("E64")
@pytest.mark.parametrize("shared_column", [1, 2])
def test_a_chunk_may_not_write_any_shared_block(shared_column: int) -> None:
    cache = cache_of(12)
    run = [Row(0, 100, tokens=20, is_new=True, sequence=60)]
    first = cache.reserve(StepId(1), plan_of(run))
    assert first.validate() == []
    first.prepare()
    first.publish()
    cache.share(cache.tables.block_id[0, shared_column : shared_column + 1])

    second = cache.reserve(StepId(2), plan_of([Row(0, 100, 20, 25)]))

    assert [each.check_id for each in second.validate()] == ["row.exclusive"]


def test_a_shared_complete_block_may_be_followed_by_new_ones() -> None:
    cache = cache_of(12)
    admit(cache, 16)
    cache.share(cache.tables.block_id[0, :1])

    assert cache.reserve(StepId(2), plan_of([Row(0, 100, 16)])).validate() == []
