from __future__ import annotations

import numpy as np
import pytest
from cache_steps import Row, admit, cache_of, candidates_of, plan_of, run_step
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_admission import naive_admission
from pa_cache import CacheGeometry, PagedCacheManager
from pa_cache.admission import select_in_order
from pa_spec import Admission, ContractViolation, StepId, StepLimits

LIMITS = StepLimits(max_batch_size=4, max_scheduled_tokens=64)


def plan(
    cache: PagedCacheManager,
    rows: list[Row],
    free: tuple[int, ...] = (),
    limits: StepLimits = LIMITS,
) -> Admission:
    return cache.plan_admission(candidates_of(rows, free), limits)


def new(request: int, prompt: int, limit: int = 0) -> Row:
    return Row(-1, request, sequence=prompt, limit=limit)


def test_everybody_runs_who_fits_and_new_rows_get_free_residents_in_order() -> None:
    cache = cache_of(8)
    admit(cache, 16, 10)

    admission = plan(cache, [Row(1, 101, 10), new(5, 3), Row(0, 100, 16), new(6, 3)], (3, 2))

    assert admission.selected.tolist() == [0, 1, 2, 3]
    assert admission.resident.tolist() == [1, 3, 0, 2]
    assert not len(admission.deferred)
    assert not len(admission.unserviceable)


def test_without_candidates_nobody_runs() -> None:
    admission = plan(cache_of(8), [])

    assert [len(each) for each in (admission.selected, admission.resident)] == [0, 0]


@pytest.mark.spec("E44")
def test_a_candidate_that_does_not_fit_is_passed_over_not_stopped_at() -> None:
    cache = cache_of(4)

    admission = plan(cache, [new(1, 30), new(2, 60), new(3, 20)], (0, 1, 2))

    assert admission.selected.tolist() == [0, 2]
    assert admission.resident.tolist() == [0, 1]
    assert admission.deferred.tolist() == [1]


@pytest.mark.spec("E43")
@pytest.mark.parametrize("limits", [StepLimits(2, 64), StepLimits(4, 2)], ids=["rows", "tokens"])
def test_rows_are_limited_by_batch_size_and_by_tokens(limits: StepLimits) -> None:
    cache = cache_of(8, max_batch_size=4)

    admission = plan(cache, [new(each, 1) for each in range(4)], (0, 1, 2, 3), limits)

    assert admission.selected.tolist() == [0, 1]
    assert admission.deferred.tolist() == [2, 3]


@pytest.mark.spec("E44")
def test_without_a_free_resident_new_requests_wait_and_residents_run() -> None:
    cache = cache_of(8)
    admit(cache, 16)

    admission = plan(cache, [new(5, 1), Row(0, 100, 16), new(6, 1)], (1,))

    assert admission.selected.tolist() == [0, 1]
    assert admission.deferred.tolist() == [2]


@pytest.mark.spec("E45")
def test_a_new_prompt_needs_the_blocks_of_all_of_it() -> None:
    cache = cache_of(4)
    admit(cache, 16)

    assert plan(cache, [new(5, 48)], (1,)).selected.tolist() == [0]
    assert plan(cache, [new(5, 49)], (1,)).deferred.tolist() == [0]


@pytest.mark.spec("E45")
def test_blocks_that_a_row_owns_already_are_no_growth() -> None:
    cache = cache_of(4)
    run_step(cache, 1, Row(0, 100, tokens=3, is_new=True, sequence=64))

    assert plan(cache, [Row(0, 100, 3, sequence=64)]).selected.tolist() == [0]


@pytest.mark.spec("E46")
@pytest.mark.parametrize(("columns", "prompt"), [(8, 129), (2, 33)], ids=["pool", "table"])
def test_what_can_never_fit_is_unserviceable_and_others_run(columns: int, prompt: int) -> None:
    cache = cache_of(8, columns=columns)
    limits = StepLimits(max_batch_size=1, max_scheduled_tokens=1)

    admission = plan(cache, [new(1, 5), new(2, prompt)], (0,), limits)

    assert admission.selected.tolist() == [0]
    assert admission.unserviceable.tolist() == [1]
    assert plan(cache, [new(2, prompt - 1)], (0,), limits).selected.tolist() == [0]


@pytest.mark.spec("E46")
def test_what_waits_for_others_is_deferred_not_unserviceable() -> None:
    cache = cache_of(8)
    admit(cache, 16)

    admission = plan(cache, [new(1, 128)], (1,))

    assert admission.deferred.tolist() == [0]


@pytest.mark.spec("E49")
def test_a_resident_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ContractViolation, match=r"indices below 4, got 4 \(E49\)"):
        plan(cache_of(8), [Row(4, 1)])


def test_blocks_of_a_live_reservation_are_not_planned_twice() -> None:
    cache = cache_of(2)
    admit(cache, 16)
    run = [Row(0, 100, 16)]
    admission = plan(cache, run)
    assert admission.selected.tolist() == [0]

    reservation = cache.reserve(StepId(2), plan_of(run))

    assert plan(cache, [new(5, 1)], (1,)).deferred.tolist() == [0]
    assert plan(cache, [Row(0, 100, 17)]).selected.tolist() == [0]
    reservation.discard()
    assert plan(cache, [new(5, 1)], (1,)).selected.tolist() == [0]


@pytest.mark.spec("E48")
def test_planning_changes_nothing() -> None:
    cache = cache_of(4)
    admit(cache, 16, 10)
    candidates = candidates_of([Row(1, 101, 10), new(5, 40), new(6, 3)], (2, 3))
    before, usage = cache.audit.snapshot(), cache.usage
    given = [np.copy(getattr(candidates, name)) for name in ("resident", "free_resident")]

    cache.plan_admission(candidates, LIMITS)

    assert (cache.audit.snapshot(), cache.usage) == (before, usage)
    assert np.array_equal(candidates.resident, given[0])
    assert np.array_equal(candidates.free_resident, given[1])


@st.composite
def problems(draw: st.DrawFn) -> tuple[PagedCacheManager, list[Row], list[int], StepLimits]:
    """Draw a cache with residents, and candidates among them and new ones in any order."""
    num_blocks = draw(st.integers(1, 12))
    cache = cache_of(num_blocks, max_batch_size=6, columns=draw(st.integers(1, 12)))
    rows, resident = [], 0
    for prompt in draw(st.lists(st.integers(1, 40), max_size=5)):
        row = Row(resident, resident, tokens=prompt, is_new=True, limit=draw(st.integers(0, 90)))
        needed = max(1, -(-prompt // 16))
        if needed <= min(cache.usage.free, cache.geometry.table_columns):
            run_step(cache, resident + 1, row)
            ahead = draw(st.sampled_from([1, 1, 1, 5, 30]))
            limit = draw(st.one_of(st.just(row.limit), st.integers(0, 120)))
            if draw(st.booleans()):
                sequence = prompt + ahead
                rows.append(Row(resident, resident, prompt, sequence=sequence, limit=limit))
            resident += 1
    for request in range(draw(st.integers(0, 5))):
        prompt, limit = draw(st.integers(1, 100)), draw(st.integers(0, 200))
        rows.append(Row(-1, 100 + request, sequence=prompt, limit=limit))
    order = draw(st.permutations(rows))
    limits = StepLimits(
        max_batch_size=draw(st.integers(1, 6)),
        max_scheduled_tokens=draw(st.integers(1, 8)),
        reserve_turn_limit=draw(st.booleans()),
    )
    free = list(range(resident, 6))[: draw(st.integers(0, 6))]
    return cache, list(order), free, limits


@pytest.mark.spec("E43", "E44", "E45", "E46", "E48")
@settings(max_examples=250, deadline=None)
@given(problems())
def test_admission_equals_the_naive_model(
    problem: tuple[PagedCacheManager, list[Row], list[int], StepLimits],
) -> None:
    cache, rows, free, limits = problem

    admission = cache.plan_admission(candidates_of(rows, free), limits)

    naive = naive_admission(cache, rows, free, limits)
    assert admission.selected.tolist() == naive.selected
    assert admission.resident.tolist() == naive.resident
    assert admission.deferred.tolist() == naive.deferred
    assert admission.unserviceable.tolist() == naive.unserviceable


COSTS = st.integers(1, 40).flatmap(
    lambda count: st.lists(
        st.lists(st.integers(0, 9), min_size=count, max_size=count), min_size=1, max_size=4
    )
)


@settings(max_examples=150, deadline=None)
@given(COSTS, st.lists(st.integers(-2, 30), min_size=4, max_size=4))
def test_selection_never_overspends_and_passes_over_only_what_does_not_fit(
    costs: list[list[int]], budgets: list[int]
) -> None:
    table, left = np.array(costs, np.int64), np.array(budgets[: len(costs)], np.int64)

    chosen = select_in_order(table, left)

    left = np.maximum(left, 0)
    for place, is_chosen in enumerate(chosen.tolist()):
        fits = bool((table[:, place] <= left).all())
        assert is_chosen == fits
        left = left - table[:, place] * is_chosen
    assert (left >= 0).all()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([16, 64, 256]))
def test_blocks_grow_with_tokens_and_hold_them_exactly(
    fewer: int, more: int, block_size: int
) -> None:
    geometry = CacheGeometry(1, block_size, 1, 1)
    fewer, more = sorted((fewer, more))

    small, large = geometry.blocks_for(np.array([fewer, more])).tolist()

    assert small <= large
    assert (large - 1) * block_size < more <= large * block_size


def test_ten_thousand_that_wait_are_passed_over_in_few_rounds() -> None:
    cache = cache_of(3, max_batch_size=64, columns=64)
    rows = [new(each, 20) for each in range(10_000)]

    admission = plan(cache, rows, tuple(range(64)), StepLimits(64, 64))

    assert admission.selected.tolist() == [0]
    assert len(admission.deferred) == 9_999
