from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, ids, plan_of, publish, run_step
from pa_cache import PagedReservation, ReservationState
from pa_spec import BlockUsage, ContractViolation, StepId

PREPARE = PagedReservation.prepare
PUBLISH = PagedReservation.publish
DISCARD = PagedReservation.discard


@pytest.mark.spec("E58", "E62")
def test_reserved_blocks_stand_behind_committed_ones_and_are_not_owned() -> None:
    cache = cache_of(8)
    admit(cache, 16, 10)

    reservation = cache.reserve(StepId(2), plan_of([Row(1, 101, 10), Row(0, 100, 16)]))

    assert reservation.table.resident.tolist() == [0]
    assert reservation.table.column.tolist() == [1]
    assert cache.tables.block_id[0, 1] == reservation.table.block_id[0]
    assert cache.tables.num_blocks[:2].tolist() == [1, 1]
    assert cache.usage == BlockUsage(free=5, reserved=1, committed=2, total=8)


@pytest.mark.spec("E79")
def test_publication_makes_the_reservation_committed() -> None:
    cache = cache_of(8)

    admit(cache, 40, 1)

    assert cache.tables.num_blocks[:2].tolist() == [3, 1]
    assert cache.audit.committed(ids(0, 1)).tolist() == [40, 1]
    assert cache.tables.request[:3].tolist() == [100, 101, -1]
    assert cache.usage == BlockUsage(free=4, reserved=0, committed=4, total=8)
    assert cache.peak == 4


@pytest.mark.spec("E45")
def test_a_chunk_of_a_prompt_reserves_the_whole_prompt() -> None:
    cache = cache_of(8)

    run_step(cache, 1, Row(0, 100, tokens=5, is_new=True, sequence=70))

    assert cache.tables.num_blocks[0] == 5
    assert cache.audit.committed(ids(0)).tolist() == [5]
    assert cache.reserve(StepId(2), plan_of([Row(0, 100, 5, 65)])).table.block_id.size == 0


@pytest.mark.spec("E45")
def test_a_plan_without_sequences_reserves_what_the_step_reaches() -> None:
    cache = cache_of(8)
    plan = plan_of([Row(0, 100, tokens=5, is_new=True, sequence=70)])
    short = {
        name: getattr(plan, name) for name in plan.__slots__ if not name.startswith("sequence")
    }

    cache.reserve(StepId(1), type(plan)(**short))

    assert cache.usage.reserved == 1


@pytest.mark.spec("E84", "E85")
def test_an_abort_moves_nothing() -> None:
    cache = cache_of(8)
    admit(cache, 16, 10)
    before, stack = cache.audit.snapshot(), cache.pool.free.copy()

    reservation = cache.reserve(
        StepId(2), plan_of([Row(0, 100, 16), Row(2, 7, tokens=33, is_new=True, limit=60)])
    )
    assert cache.audit.snapshot() == before
    reservation.discard()

    assert cache.audit.snapshot() == before
    assert np.array_equal(cache.pool.free, stack)
    assert cache.audit.check_all() == []


def test_a_retry_gets_the_same_blocks() -> None:
    cache = cache_of(8)
    admit(cache, 16)
    first = cache.reserve(StepId(2), plan_of([Row(0, 100, 16)]))
    first.discard()

    second = cache.reserve(StepId(3), plan_of([Row(0, 100, 16)]))

    assert np.array_equal(second.table.block_id, first.table.block_id)


@pytest.mark.spec("E57")
@pytest.mark.parametrize("tokens", [49, 64])
def test_a_step_that_needs_more_than_is_free_reserves_nothing(tokens: int) -> None:
    cache = cache_of(4)
    admit(cache, 16)
    before = cache.audit.snapshot()

    with pytest.raises(ContractViolation, match=r"\(E57\)"):
        cache.reserve(StepId(2), plan_of([Row(0, 100, 16), Row(1, 7, tokens=tokens, is_new=True)]))

    assert cache.audit.snapshot() == before
    assert cache.usage == BlockUsage(free=3, reserved=0, committed=1, total=4)
    assert cache.audit.check_all() == []


@pytest.mark.spec("E46")
def test_a_row_wider_than_its_table_reserves_nothing() -> None:
    cache = cache_of(8, columns=2)

    with pytest.raises(ContractViolation, match=r"at most 2, got 3 \(E46\)"):
        cache.reserve(StepId(1), plan_of([Row(0, 100, tokens=33, is_new=True)]))

    assert cache.usage.free == 8


@pytest.mark.spec("E61")
@pytest.mark.parametrize("resident", [-1, 4])
def test_a_resident_index_outside_the_table_reserves_nothing(resident: int) -> None:
    cache = cache_of(8)

    with pytest.raises(ContractViolation, match=r"indices from 0 to 3, got .* \(E61\)"):
        cache.reserve(StepId(1), plan_of([Row(resident, 100, is_new=True)]))

    assert cache.usage.free == 8


def test_a_pool_of_one_block_serves_sixteen_tokens_and_not_one_more() -> None:
    cache = cache_of(1)
    admit(cache, 15)
    run_step(cache, 2, Row(0, 100, 15))

    with pytest.raises(ContractViolation, match=r"at most 1, got 2 \(E46\)"):
        cache.reserve(StepId(3), plan_of([Row(0, 100, 16)]))

    assert cache.usage == BlockUsage(free=0, reserved=0, committed=1, total=1)


def test_a_pool_can_be_exactly_full_and_one_past_is_refused() -> None:
    cache = cache_of(4, columns=4)
    admit(cache, 32, 32)

    with pytest.raises(ContractViolation, match=r"at most 0 free, got 1 \(E57\)"):
        cache.reserve(StepId(2), plan_of([Row(0, 100, 32)]))

    assert cache.usage.free == 0
    assert cache.audit.check_all() == []


def test_an_empty_step_is_a_step() -> None:
    cache = cache_of(2)

    publish(cache.reserve(StepId(1), plan_of([])))

    assert cache.usage.free == 2


@pytest.mark.spec("E82")
def test_reservations_see_each_others_growth_and_are_published_in_order() -> None:
    cache = cache_of(8)
    admit(cache, 16)

    first = cache.reserve(StepId(2), plan_of([Row(0, 100, 16, 16)]))
    second = cache.reserve(StepId(3), plan_of([Row(0, 100, 32)]))
    publish(first)
    publish(second)

    assert cache.tables.num_blocks[0] == 3
    assert cache.audit.committed(ids(0)).tolist() == [33]
    assert len(set(cache.tables.block_id[0, :3].tolist())) == 3
    assert cache.audit.check_all() == []


@pytest.mark.spec("E84")
def test_discarding_one_discards_the_later_ones() -> None:
    cache = cache_of(8)
    admit(cache, 16)
    before = cache.audit.snapshot()
    first = cache.reserve(StepId(2), plan_of([Row(0, 100, 16)]))
    second = cache.reserve(StepId(3), plan_of([Row(0, 100, 17, 30)]))
    third = cache.reserve(StepId(4), plan_of([Row(0, 100, 47)]))

    second.discard()
    states = (first.state, second.state, third.state)
    first.discard()

    assert states == (
        ReservationState.RESERVED,
        ReservationState.DISCARDED,
        ReservationState.DISCARDED,
    )
    assert cache.audit.snapshot() == before
    assert cache.usage.reserved == 0
    assert cache.audit.check_all() == []


def test_the_earlier_reservation_is_published_after_a_later_one_was_discarded() -> None:
    cache = cache_of(8)
    admit(cache, 16)
    first = cache.reserve(StepId(2), plan_of([Row(0, 100, 16)]))
    cache.reserve(StepId(3), plan_of([Row(0, 100, 17, 30)])).discard()

    publish(first)

    assert cache.tables.num_blocks[0] == 2
    assert cache.audit.check_all() == []


@pytest.mark.parametrize(
    ("calls", "refused"),
    [
        ([], PUBLISH),
        ([PREPARE], PREPARE),
        ([PREPARE, PUBLISH], PREPARE),
        ([PREPARE, PUBLISH], PUBLISH),
        ([PREPARE, PUBLISH], DISCARD),
        ([DISCARD], PREPARE),
        ([DISCARD], PUBLISH),
        ([PREPARE, DISCARD], PUBLISH),
    ],
)
@pytest.mark.spec("E79")
def test_calls_in_the_wrong_order_are_refused_and_change_nothing(
    calls: list[Callable[[PagedReservation], None]], refused: Callable[[PagedReservation], None]
) -> None:
    cache = cache_of(8)
    reservation = cache.reserve(StepId(1), plan_of([Row(0, 100, tokens=20, is_new=True)]))
    for call in calls:
        call(reservation)
    before, state = cache.audit.snapshot(), reservation.state

    with pytest.raises(ContractViolation, match="reservation: expected"):
        refused(reservation)

    assert reservation.state is state
    assert cache.audit.snapshot() == before


@pytest.mark.spec("E79")
def test_only_the_oldest_reservation_is_prepared() -> None:
    cache = cache_of(8)
    admit(cache, 16)
    cache.reserve(StepId(2), plan_of([Row(0, 100, 16)]))
    second = cache.reserve(StepId(3), plan_of([Row(0, 100, 17)]))

    with pytest.raises(ContractViolation, match=r"oldest live is PagedReservation\(step 2"):
        second.prepare()


@pytest.mark.spec("E84")
def test_discarding_again_does_nothing() -> None:
    cache = cache_of(8)
    reservation = cache.reserve(StepId(1), plan_of([Row(0, 100, tokens=20, is_new=True)]))
    reservation.discard()
    other = cache.reserve(StepId(2), plan_of([Row(0, 100, tokens=20, is_new=True)]))

    reservation.discard()

    assert other.state is ReservationState.RESERVED
    assert cache.usage.reserved == 2


def test_a_reservation_shows_its_counts_and_state() -> None:
    cache = cache_of(8)
    reservation = cache.reserve(StepId(5), plan_of([Row(0, 100, tokens=20, is_new=True)]))

    assert repr(reservation) == "PagedReservation(step 5, Reserved, 1 rows, 2 blocks)"
