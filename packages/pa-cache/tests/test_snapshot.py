"""A snapshot is equal when nothing has changed, and differs in every part that can change."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, ids, plan_of
from pa_cache import CacheSnapshot, PagedCacheManager
from pa_spec import StepId


def busy_cache() -> PagedCacheManager:
    cache = cache_of(10)
    admit(cache, 16, 40, 5)
    cache.share(cache.tables.block_id[0, :1])
    cache.release(ids(2), StepId(7))
    return cache


def test_two_snapshots_of_the_same_state_are_equal() -> None:
    cache = busy_cache()

    assert cache.audit.snapshot() == cache.audit.snapshot()
    assert cache.audit.snapshot() != "a cache"


@pytest.mark.parametrize("part", [each.name for each in fields(CacheSnapshot)])
def test_a_change_of_any_part_is_seen(part: str) -> None:
    before, after = busy_cache().audit.snapshot(), busy_cache().audit.snapshot()
    assert before == after

    array = getattr(after, part)
    array.flat[0] += 1

    assert before.differences(after) == (part,)
    assert before != after


def test_a_missing_entry_is_a_difference() -> None:
    cache = busy_cache()
    before = cache.audit.snapshot()

    cache.release(ids(1), StepId(0), np.array([32]))

    assert set(before.differences(cache.audit.snapshot())) == {
        "num_blocks",
        "committed_tokens",
        "generation",
        "promised_blocks",
        "table",
        "reference_count",
        "free",
        "pool_generation",
    }


def test_a_snapshot_is_not_changed_by_what_comes_later() -> None:
    cache = busy_cache()
    before = cache.audit.snapshot()
    text = repr(before)

    cache.release(ids(0, 1), StepId(0))

    assert repr(before) == text


def test_the_order_of_the_free_stack_is_no_difference() -> None:
    cache = busy_cache()
    before = cache.audit.snapshot()

    cache.pool.free[[0, 1]] = cache.pool.free[[1, 0]]

    assert cache.audit.snapshot() == before


def test_a_live_reservation_is_invisible() -> None:
    cache = busy_cache()
    before = cache.audit.snapshot()

    cache.reserve(StepId(9), plan_of([Row(0, 100, 16), Row(3, 9, tokens=20, is_new=True)]))

    assert cache.audit.snapshot() == before


def test_the_number_of_the_last_ended_step_is_no_difference() -> None:
    cache = busy_cache()
    before = cache.audit.snapshot()

    cache.end_step(StepId(6))

    assert cache.audit.snapshot() == before


def test_it_prints_as_a_short_table() -> None:
    lines = repr(busy_cache().audit.snapshot()).splitlines()

    assert lines == [
        "CacheSnapshot(pool generation 3",
        "  free 5: [0 1 2 3 4]",
        "  quarantine 9 until 7",
        "  holders 5: 2",
        "  held outside tables 1: [5]",
        "  resident request generation tokens promised blocks",
        "         0     100          0     16        1 1: [5]",
        "         1     101          0     40        3 3: [6 7 8]",
        "         2      -1          1      0        0 0: [])",
    ]


def test_long_lists_of_blocks_are_abbreviated() -> None:
    cache = cache_of(100)

    assert "  free 100: [0 1 2 3 4 5 6 7 8 9 10 11 … 88 more]" in repr(cache.audit.snapshot())
