"""Admission reproduces the contract's golden examples (spec/vectors/admission_arithmetic.json)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from cache_steps import Row, candidates_of, plan_of, run_step
from pa_cache import CacheGeometry, PagedCacheManager
from pa_spec import StepId, StepLimits, vectors

CASES = vectors("admission_arithmetic")
ONE_ROW = [case for case in CASES if "candidates" not in case]
SELECTIONS = [case for case in CASES if "candidates" in case]


def make_resident(cache: PagedCacheManager, resident: int, committed: int, owned: int) -> None:
    """Let a request own so many blocks, of which its tokens may fill a part."""
    tokens = max(committed, 1)
    capacity = owned * cache.block_size
    run_step(cache, resident + 1, Row(resident, resident, 0, tokens, True, capacity))


@pytest.mark.spec("E45")
@pytest.mark.parametrize("case", ONE_ROW, ids=lambda case: case["id"])
def test_a_row_grows_by_what_its_sequence_needs(case: Mapping[str, Any]) -> None:
    cache = PagedCacheManager(CacheGeometry(32, case["block_size"], 1, 32))
    is_new = case["owned"] == 0
    if not is_new:
        make_resident(cache, 0, case["committed"], case["owned"])

    row = Row(0, 0, case["committed"], 1, is_new, case["sequence"])
    reservation = cache.reserve(StepId(9), plan_of([row]))

    assert reservation.validate() == []
    assert len(reservation.table.block_id) == case["growth"]


@pytest.mark.spec("E43", "E44", "E45", "E46", "E48")
@pytest.mark.parametrize("case", SELECTIONS, ids=lambda case: case["id"])
def test_candidates_are_selected_deferred_or_unserviceable(case: Mapping[str, Any]) -> None:
    # One index more than the case has, for whoever owns what no candidate does.
    others = case["resident_limit"]
    geometry = CacheGeometry(case["total_blocks"], case["block_size"], others + 1, case["columns"])
    cache = PagedCacheManager(geometry)
    rows = []
    for place, each in enumerate(case["candidates"]):
        resident = place if each["resident"] else -1
        if each["resident"]:
            make_resident(cache, resident, each["committed"], each["owned"])
        rows.append(Row(resident, place, each["committed"], sequence=each["sequence"]))
    if cache.usage.free > case["free_blocks"]:
        make_resident(cache, others, 1, cache.usage.free - case["free_blocks"])
    assert cache.usage.free == case["free_blocks"]

    free_resident = range(case["residents"], case["resident_limit"])
    limits = StepLimits(case["row_limit"], 10_000)
    admission = cache.plan_admission(candidates_of(rows, free_resident), limits)

    assert admission.selected.tolist() == case["selected"]
    assert admission.deferred.tolist() == case["deferred"]
    assert admission.unserviceable.tolist() == case["unserviceable"]
