from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cache_steps import ids
from pa_cache import BlockPool
from pa_spec import BlockUsage, ContractViolation, InputUnusable, StepId

NOT_IN_FLIGHT = StepId(0)


def committed_pool(num_blocks: int, count: int) -> BlockPool:
    pool = BlockPool(num_blocks)
    pool.commit(pool.reserve(count))
    return pool


def held_blocks(pool: BlockPool) -> list[int]:
    held: list[int] = np.flatnonzero(pool.reference_count).tolist()
    return held


@pytest.mark.spec("E64")
def test_every_block_is_free_reserved_or_committed() -> None:
    pool = BlockPool(5)

    taken = pool.reserve(3)
    reserved = pool.usage
    pool.commit(taken)

    assert reserved == BlockUsage(free=2, reserved=3, committed=0, total=5)
    assert pool.usage == BlockUsage(free=2, reserved=0, committed=3, total=5)


@pytest.mark.spec("E57")
def test_rejected_reservation_consumes_no_blocks() -> None:
    pool = BlockPool(3)

    with pytest.raises(ContractViolation, match=r"at most 3 free, got 4 \(E57\)"):
        pool.reserve(4)

    assert pool.usage.free == 3
    assert len(set(pool.reserve(3).tolist())) == 3


def test_the_stack_top_moves_only_when_a_reservation_is_committed() -> None:
    pool = BlockPool(4)
    before = pool.free.copy()

    taken = pool.reserve(2)
    top_reserved = pool.top
    pool.discard(2)

    assert (top_reserved, pool.top) == (4, 4)
    assert np.array_equal(pool.free, before)
    assert np.array_equal(pool.reserve(2), taken)


def test_the_whole_pool_can_be_taken_and_given_back() -> None:
    pool = committed_pool(6, 6)

    pool.release(np.arange(6, dtype=np.int32), NOT_IN_FLIGHT)

    assert pool.usage == BlockUsage(free=6, reserved=0, committed=0, total=6)
    assert sorted(pool.reserve(6)) == [0, 1, 2, 3, 4, 5]


def test_a_shared_block_stays_committed_until_its_last_holder_lets_go() -> None:
    pool = committed_pool(2, 1)
    (block_id,) = held_blocks(pool)
    pool.share(ids(block_id, block_id))

    pool.release(ids(block_id, block_id), NOT_IN_FLIGHT)
    held = pool.usage.committed
    pool.release(ids(block_id), NOT_IN_FLIGHT)

    assert held == 1
    assert pool.usage.free == 2


@pytest.mark.spec("E64")
def test_a_block_cannot_lose_more_holders_than_it_has() -> None:
    pool = committed_pool(2, 1)
    (block_id,) = held_blocks(pool)
    before = pool.generation

    with pytest.raises(ContractViolation, match="at least 2 holders, got 1"):
        pool.release(ids(block_id, block_id), NOT_IN_FLIGHT)

    assert pool.usage.committed == 1
    assert pool.generation == before


@pytest.mark.parametrize("block_id", [-1, 4])
def test_an_id_outside_the_pool_is_refused(block_id: int) -> None:
    pool = committed_pool(4, 4)

    with pytest.raises(ContractViolation, match="ids from 0 to 3"):
        pool.share(ids(block_id))


def test_only_committed_blocks_can_be_shared() -> None:
    pool = BlockPool(4)

    with pytest.raises(ContractViolation, match="block 2: expected at least 1 holders, got 0"):
        pool.share(ids(2))


def test_blocks_of_a_step_in_flight_are_quarantined_until_it_ends() -> None:
    pool = committed_pool(4, 3)
    owned = np.flatnonzero(pool.reference_count).astype(np.int32)
    pool.release(owned[:1], StepId(7))
    pool.release(owned[1:], StepId(9))

    quarantined = pool.usage
    pool.end_step(StepId(8))
    half = pool.usage
    pool.end_step(StepId(9))

    assert quarantined == BlockUsage(free=1, reserved=3, committed=0, total=4)
    assert half == BlockUsage(free=2, reserved=2, committed=0, total=4)
    assert pool.usage == BlockUsage(free=4, reserved=0, committed=0, total=4)
    assert sorted(pool.reserve(4)) == [0, 1, 2, 3]


def test_blocks_of_a_step_that_has_ended_are_free_at_once() -> None:
    pool = committed_pool(2, 2)
    pool.end_step(StepId(5))

    pool.release(ids(0, 1), StepId(5))

    assert pool.usage.free == 2


def test_an_older_step_ends_nothing_again() -> None:
    pool = committed_pool(2, 2)
    pool.end_step(StepId(5))
    pool.release(ids(0), StepId(6))

    pool.end_step(StepId(4))

    assert pool.usage.reserved == 1
    assert pool.ended_step == 5


def test_blocks_that_come_back_lie_below_reserved_ones() -> None:
    pool = committed_pool(6, 2)
    owned = np.flatnonzero(pool.reference_count).astype(np.int32)
    first, second = pool.reserve(2), pool.reserve(1)

    pool.release(owned, NOT_IN_FLIGHT)
    pool.commit(first)
    pool.commit(second)

    assert pool.usage == BlockUsage(free=3, reserved=0, committed=3, total=6)
    assert set(pool.reserve(3).tolist()).isdisjoint([*first, *second])


def test_each_change_of_ownership_is_a_new_generation() -> None:
    pool = BlockPool(4)
    seen = [pool.generation]

    taken = pool.reserve(2)
    assert pool.generation == seen[-1]
    changes: list[Callable[[], None]] = [
        lambda: pool.commit(taken),
        lambda: pool.share(taken),
        lambda: pool.release(taken, NOT_IN_FLIGHT),
        lambda: pool.release(taken, StepId(3)),
        lambda: pool.end_step(StepId(3)),
    ]
    for change in changes:
        change()
        seen.append(pool.generation)

    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("num_blocks", [0, -3, 2**31])
def test_a_pool_has_from_one_block_to_what_an_id_can_name(num_blocks: int) -> None:
    with pytest.raises(InputUnusable, match=r"num_blocks: .*allowed: from 1 to 2147483647"):
        BlockPool(num_blocks)


def test_a_pool_shows_its_counts() -> None:
    assert repr(committed_pool(4, 1)) == "BlockPool(free 3 + reserved 0 + committed 1 = 4)"
