"""Admission reproduces the contract's golden examples, and golden steps find their slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from cache_steps import Row, candidates_of, plan_of, run_step
from pa_cache import CacheGeometry, PagedCacheManager
from pa_spec import StepId, StepLimits, TableDelta, vectors

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


def slots_of_row(cache: PagedCacheManager, delta: TableDelta, resident: int, end: int) -> list[int]:
    """Return the slot of every position by the derived form, with the step's own blocks."""
    blocks = cache.tables.block_id[resident].tolist()
    entries = zip(
        delta.resident.tolist(), delta.column.tolist(), delta.block_id.tolist(), strict=True
    )
    for owner, column, block in entries:
        if owner == resident:
            blocks[column] = block
    size = cache.block_size
    return [blocks[position // size] * size + position % size for position in range(end)]


@pytest.mark.spec("E51", "E58", "E62")
@pytest.mark.parametrize("case", vectors("packed_layout"), ids=lambda case: case["id"])
def test_every_token_of_a_golden_step_has_a_slot_of_its_own(case: Mapping[str, Any]) -> None:
    cache = PagedCacheManager(CacheGeometry(32, 16, 8, 8))
    rows = []
    for resident, (past, tokens) in enumerate(zip(case["past"], case["tokens"], strict=True)):
        if past:
            make_resident(cache, resident, past, -(-past // 16))
        rows.append(Row(resident, resident + 1, past, tokens, past == 0))

    reservation = cache.reserve(StepId(99), plan_of(rows))

    slots = [
        slot
        for resident, end in enumerate(case["target_tokens"])
        for slot in slots_of_row(cache, reservation.table, resident, end)
    ]
    assert len(set(slots)) == len(slots) == sum(case["target_tokens"])
    assert min(slots) >= 0
    assert max(slots) < 32 * 16
