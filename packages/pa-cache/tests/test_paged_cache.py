from __future__ import annotations

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, ids, plan_of, run_step
from pa_spec import BlockUsage, ContractViolation, StepId


@pytest.mark.spec("E20")
def test_a_released_resident_leaves_nothing_behind() -> None:
    cache = cache_of(8)
    admit(cache, 40, 5)

    cache.release(ids(0, 1), StepId(0))

    assert cache.usage == BlockUsage(free=8, reserved=0, committed=0, total=8)
    assert cache.tables.request.tolist() == [-1] * 4
    assert cache.audit.check_all() == []
    run_step(cache, 2, Row(0, 7, tokens=128, is_new=True))


def test_releasing_nobody_changes_nothing() -> None:
    cache = cache_of(8)
    admit(cache, 40)
    before = cache.audit.snapshot()

    cache.release(ids(), StepId(0))

    assert cache.audit.snapshot() == before


def test_a_resident_that_keeps_more_than_it_has_keeps_what_it_has() -> None:
    cache = cache_of(8)
    admit(cache, 40)

    cache.release(ids(0), StepId(0), np.array([1000]))

    assert cache.tables.num_blocks[0] == 3
    assert cache.audit.committed(ids(0)).tolist() == [40]


@pytest.mark.parametrize(("keep", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (40, 3)])
def test_a_resident_keeps_the_blocks_of_what_it_keeps(keep: int, blocks: int) -> None:
    cache = cache_of(8)
    admit(cache, 40)

    cache.release(ids(0), StepId(0), np.array([keep]))

    assert cache.tables.num_blocks[0] == blocks
    assert cache.usage.free == 8 - blocks
    assert cache.audit.check_all() == []
    run_step(cache, 2, Row(0, 100, keep, 40 - keep + 1))


def test_blocks_given_back_under_a_step_in_flight_wait_for_its_end() -> None:
    cache = cache_of(4)
    admit(cache, 40)

    cache.release(ids(0), StepId(9))
    waiting = cache.usage
    cache.end_step(StepId(9))

    assert waiting == BlockUsage(free=1, reserved=3, committed=0, total=4)
    assert cache.usage.free == 4


def test_a_shared_block_outlives_its_resident() -> None:
    cache = cache_of(8)
    admit(cache, 16)
    block_id = cache.tables.block_id[0, :1].copy()
    cache.share(block_id)

    cache.release(ids(0), StepId(0))
    held = cache.usage.committed
    cache.unshare(block_id, StepId(0))

    assert held == 1
    assert cache.usage.committed == 0
    assert cache.audit.check_all() == []


@pytest.mark.parametrize("block_id", [-1, 0, 99])
def test_a_hold_that_was_not_taken_cannot_be_given_up(block_id: int) -> None:
    cache = cache_of(8)
    admit(cache, 16)
    before = cache.audit.snapshot()

    with pytest.raises(ContractViolation, match="blocks held by share"):
        cache.unshare(ids(block_id), StepId(0))

    assert cache.audit.snapshot() == before


def test_a_refused_share_holds_nothing() -> None:
    cache = cache_of(8)

    with pytest.raises(ContractViolation, match="holders"):
        cache.share(ids(3))

    assert cache.audit.check_all() == []
    assert not cache.audit.snapshot().outside_holds.any()


def test_the_peak_is_the_most_that_was_ever_committed() -> None:
    cache = cache_of(8)
    admit(cache, 64, 16)
    cache.release(ids(0), StepId(0))
    cache.reserve(StepId(2), plan_of([Row(2, 5, tokens=112, is_new=True)])).discard()
    run_step(cache, 3, Row(1, 101, 16))

    assert cache.peak == 5


def test_a_cache_shows_its_counts() -> None:
    cache = cache_of(8)
    admit(cache, 40, 5)

    assert repr(cache) == (
        "PagedCacheManager(free 4 + reserved 0 + committed 4 = 8 blocks of 16, 2 residents, "
        "0 live reservations)"
    )


@pytest.mark.spec("E20")
@pytest.mark.parametrize(
    ("resident", "keep"),
    [
        (np.array([-1], np.int32), None),
        (np.array([4], np.int32), None),
        (np.array([0.0]), None),
        (np.array([[0]], np.int32), None),
        (np.array([0], np.int32), np.array([-40])),
        (np.array([0], np.int32), np.array([1.5])),
        (np.array([0], np.int32), np.array([1, 2])),
    ],
    ids=str,
)
def test_a_release_of_nobody_there_is_refused_before_anything_changes(
    resident: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    keep: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None,
) -> None:
    cache = cache_of(8)
    admit(cache, 40)
    before = cache.audit.snapshot()

    with pytest.raises(ContractViolation, match="E20"):
        cache.release(resident, StepId(0), keep)

    assert cache.audit.snapshot() == before
