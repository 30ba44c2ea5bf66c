"""Promises of the decode-first policy, by its public methods."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_policy import Row
from numpy.typing import NDArray
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    Candidates,
    ContractViolation,
    InputUnusable,
    SchedulerPolicy,
    StepLimits,
    StepPlan,
)
from policy_views import admit, resident_view, waiting_view


def _decode(request: int, committed: int = 20, drafts: int = 0, limit: int = 1000) -> Row:
    return Row(request, request % 100, committed, committed + 1, committed, limit, drafts)


def _prefill(request: int, committed: int, prompt: int) -> Row:
    return Row(request, request % 100, committed, prompt, prompt, prompt + 100)


def _waits(request: int, prompt: int) -> Row:
    return Row(request, None, 0, prompt, prompt, prompt + 100)


@st.composite
def _requests(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    residents = []
    for place in range(draw(st.integers(0, 12))):
        committed = draw(st.integers(1, 200))
        if draw(st.booleans()):
            row = _decode(place, committed, draw(st.integers(0, 6)), committed + 20)
        else:
            row = _prefill(place, committed, committed + draw(st.integers(1, 90)))
        residents.append(row)
    sizes = draw(st.lists(st.integers(1, 90), max_size=6))
    return residents, [_waits(500 + place, prompt) for place, prompt in enumerate(sizes)]


@st.composite
def _steps(draw: st.DrawFn) -> tuple[Candidates, StepLimits, StepPlan]:
    """Any requests, any selection, any limits that hold it, and the plan of that step."""
    residents, waiting = draw(_requests())
    policy = DecodeFirstPolicy(16)
    candidates = policy.order(resident_view(residents), waiting_view(waiting))
    count = len(candidates.request)
    selected = [each for each in range(count) if draw(st.booleans())]
    budget = max(1, len(selected)) + draw(st.integers(0, 200))
    limits = StepLimits(64, budget, draw(st.sampled_from([0, 1, 7, 64])))
    return candidates, limits, policy.pack(candidates, admit(candidates, selected), limits)


@pytest.mark.spec("E41", "E42")
def test_decodes_precede_prefills_precede_waiting_requests_and_each_kind_keeps_its_order() -> None:
    residents = [_prefill(7, 4, 9), _decode(3), _prefill(1, 2, 9), _decode(2)]
    waiting = [_waits(90, 5), _waits(80, 4)]

    candidates = DecodeFirstPolicy(16).order(resident_view(residents), waiting_view(waiting))

    assert candidates.request.tolist() == [3, 2, 7, 1, 90, 80]
    assert candidates.resident.tolist() == [3, 2, 7, 1, -1, -1]
    assert candidates.is_prefill.tolist() == [False, False, True, True, True, True]


@pytest.mark.spec("E51")
def test_counts_of_three_one_two_start_at_zero_three_four_and_want_logits_two_three_five() -> None:
    policy = DecodeFirstPolicy(16)
    waiting = [_waits(1, 3), _waits(2, 1), _waits(3, 2)]
    candidates = policy.order(resident_view([]), waiting_view(waiting))

    plan = policy.pack(candidates, admit(candidates, range(3)), StepLimits(8, 64))

    assert plan.tokens.tolist() == [3, 1, 2]
    assert plan.packed_offset.tolist() == [0, 3, 4]
    assert plan.logits_rows.tolist() == [2, 3, 5]


@pytest.mark.spec("E28")
def test_a_prompt_that_is_not_finished_by_the_step_wants_no_logits() -> None:
    policy = DecodeFirstPolicy(16)
    candidates = policy.order(resident_view([_prefill(1, 0, 100), _decode(2)]), waiting_view([]))

    plan = policy.pack(candidates, admit(candidates, (0, 1)), StepLimits(8, 64, chunk_tokens=7))

    assert plan.request.tolist() == [2, 1]
    assert plan.tokens.tolist() == [1, 7]
    assert plan.logits_offsets.tolist() == [0, 1, 1]
    assert plan.logits_rows.tolist() == [0]


@pytest.mark.spec("E54")
def test_drafts_take_what_prompts_leave_and_each_wants_its_own_logits() -> None:
    policy = DecodeFirstPolicy(16)
    residents = [_decode(1, drafts=4), _prefill(2, 0, 5), _decode(3, drafts=4)]
    candidates = policy.order(resident_view(residents), waiting_view([]))

    plan = policy.pack(candidates, admit(candidates, range(3)), StepLimits(8, 12))

    assert plan.drafts is not None
    assert plan.drafts.tolist() == [4, 1, 0]
    assert plan.tokens.tolist() == [5, 2, 5]
    assert plan.logits_offsets.tolist() == [0, 5, 7, 8]
    assert plan.logits_rows.tolist() == [0, 1, 2, 3, 4, 5, 6, 11]


@pytest.mark.spec("E54")
def test_drafts_vanish_before_a_row_loses_its_mandatory_token() -> None:
    policy = DecodeFirstPolicy(16)
    residents = [_decode(each, drafts=4) for each in range(3)]
    candidates = policy.order(resident_view(residents), waiting_view([]))

    plan = policy.pack(candidates, admit(candidates, range(3)), StepLimits(8, 3))

    assert plan.drafts is None
    assert plan.tokens.tolist() == [1, 1, 1]


@pytest.mark.spec("E54")
def test_drafts_stay_inside_the_blocks_that_admission_promised_and_inside_the_turn() -> None:
    policy = DecodeFirstPolicy(16)
    residents = [_decode(1, committed=29, drafts=9), _decode(2, committed=20, drafts=9, limit=23)]
    candidates = policy.order(resident_view(residents), waiting_view([]))

    plan = policy.pack(candidates, admit(candidates, range(2)), StepLimits(8, 64))

    assert plan.target_tokens.tolist() == [32, 23]


def test_a_new_row_takes_the_resident_index_that_admission_gave_it() -> None:
    policy = DecodeFirstPolicy(16)
    candidates = policy.order(
        resident_view([_decode(1)]), waiting_view([_waits(7, 3), _waits(8, 3)], free=[9, 4])
    )

    plan = policy.pack(candidates, admit(candidates, (0, 2)), StepLimits(8, 64))

    assert plan.resident.tolist() == [1, 9]
    assert plan.is_new.tolist() == [False, True]
    assert plan.past_tokens.tolist() == [20, 0]


@pytest.mark.spec("E48")
def test_requests_that_do_not_run_are_named_by_id() -> None:
    policy = DecodeFirstPolicy(16)
    waiting = [_waits(70, 3), _waits(80, 3), _waits(90, 3)]
    candidates = policy.order(resident_view([]), waiting_view(waiting))

    plan = policy.pack(candidates, admit(candidates, [1], unserviceable=[2]), StepLimits(8, 64))

    assert plan.request.tolist() == [80]
    assert plan.deferred.tolist() == [70]
    assert plan.unserviceable.tolist() == [90]


@pytest.mark.parametrize("waiting", [[], [_waits(5, 3)]])
def test_a_step_in_which_nothing_runs_is_an_empty_plan(waiting: list[Row]) -> None:
    policy = DecodeFirstPolicy(16)
    candidates = policy.order(resident_view([]), waiting_view(waiting))

    plan = policy.pack(candidates, admit(candidates, []), StepLimits(8, 64))

    assert plan.num_rows == 0
    assert plan.total_tokens == 0
    assert plan.logits_offsets.tolist() == [0]
    assert len(plan.deferred) == len(waiting)


@pytest.mark.spec("E43")
@pytest.mark.parametrize("limits", [StepLimits(2, 64), StepLimits(64, 2)])
def test_a_selection_larger_than_the_limits_is_refused_by_name(limits: StepLimits) -> None:
    policy = DecodeFirstPolicy(16)
    candidates = policy.order(resident_view([_decode(each) for each in range(3)]), waiting_view([]))

    with pytest.raises(
        ContractViolation, match=r"admission.selected: expected at most 2 rows.*E43"
    ):
        policy.pack(candidates, admit(candidates, range(3)), limits)


@pytest.mark.parametrize("block_size", [0, 8, 17, 48, -16])
def test_a_block_size_that_is_no_power_of_two_from_sixteen_is_refused(block_size: int) -> None:
    with pytest.raises(InputUnusable, match="power of two"):
        DecodeFirstPolicy(block_size)


def test_a_column_limit_below_one_is_refused() -> None:
    with pytest.raises(InputUnusable, match="max_columns"):
        DecodeFirstPolicy(16, max_columns=0)


def test_the_policy_satisfies_the_protocol_and_shows_its_settings() -> None:
    policy: SchedulerPolicy = DecodeFirstPolicy(32, max_columns=12)

    assert repr(policy) == "DecodeFirstPolicy(32, max_columns=12)"


@pytest.mark.spec("E43", "E50")
@given(_steps())
def test_every_row_runs_and_the_budget_holds(step: tuple[Candidates, StepLimits, StepPlan]) -> None:
    _, limits, plan = step

    assert (plan.tokens >= 1).all()
    assert plan.total_tokens == plan.tokens.sum() <= limits.max_scheduled_tokens


@pytest.mark.spec("E50")
@given(_steps())
def test_a_prefill_never_exceeds_its_prompt_or_its_chunk_and_none_starves_while_budget_is_left(
    step: tuple[Candidates, StepLimits, StepPlan],
) -> None:
    candidates, limits, plan = step
    chosen = np.isin(candidates.request, plan.request) & candidates.is_prefill
    remaining = (candidates.sequence_tokens - candidates.committed_tokens)[chosen]
    tokens = plan.tokens[plan.is_prefill]
    cap = limits.chunk_tokens or limits.max_scheduled_tokens

    assert (tokens <= np.minimum(remaining, cap)).all()
    if plan.total_tokens < limits.max_scheduled_tokens:
        assert (tokens == np.minimum(remaining, cap)).all()


@pytest.mark.spec("E51")
@given(_steps())
def test_offsets_are_running_sums_and_wanted_logits_end_each_row(
    step: tuple[Candidates, StepLimits, StepPlan],
) -> None:
    _, _, plan = step
    ends = plan.packed_offset + plan.tokens
    sampling = np.diff(plan.logits_offsets) > 0

    assert plan.packed_offset.tolist() == [0, *ends.tolist()][: plan.num_rows]
    last_wanted = plan.logits_rows[plan.logits_offsets[1:][sampling] - 1]
    assert last_wanted.tolist() == (ends[sampling] - 1).tolist()


@pytest.mark.spec("E39", "E42")
@given(_steps())
def test_the_plan_keeps_the_order_of_the_candidates(
    step: tuple[Candidates, StepLimits, StepPlan],
) -> None:
    candidates, _, plan = step
    places = [candidates.request.tolist().index(each) for each in plan.request.tolist()]

    assert places == sorted(places)
    assert plan.rank.tolist() == list(range(plan.num_rows))


@given(_requests())
def test_views_stay_as_they_were(requests: tuple[list[Row], list[Row]]) -> None:
    residents, waiting = resident_view(requests[0]), waiting_view(requests[1])
    policy = DecodeFirstPolicy(16)

    candidates = policy.order(residents, waiting)
    before = [_bytes_of(each) for each in (residents, waiting, candidates)]
    admission = admit(candidates, range(len(candidates.request)))
    first = policy.pack(candidates, admission, StepLimits(64, 64, 7))
    again = policy.pack(candidates, admission, StepLimits(64, 64, 7))

    assert [_bytes_of(each) for each in (residents, waiting, candidates)] == before
    assert _bytes_of(first) == _bytes_of(again)


@given(_steps())
def test_every_column_of_a_plan_has_the_element_type_that_the_contract_names(
    step: tuple[Candidates, StepLimits, StepPlan],
) -> None:
    _, _, plan = step
    int32 = [plan.resident, plan.rank, plan.tokens, plan.packed_offset]
    int32 += [plan.logits_rows, plan.logits_offsets]
    int64 = [plan.request, plan.past_tokens, plan.target_tokens]
    int64 += [plan.deferred, plan.unserviceable]

    assert {each.dtype.name for each in int32} == {"int32"}
    assert {each.dtype.name for each in int64} == {"int64"}
    assert plan.drafts is None or plan.drafts.dtype == np.int32
    assert plan.is_prefill.dtype == plan.is_new.dtype == np.bool_


def _bytes_of(value: object) -> list[object]:
    columns: list[NDArray[np.generic] | object] = [
        getattr(value, field.name)
        for field in fields(value)  # type: ignore[arg-type]
    ]
    return [each.tobytes() if isinstance(each, np.ndarray) else each for each in columns]
