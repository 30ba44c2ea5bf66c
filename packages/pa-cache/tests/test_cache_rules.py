"""Goal: plans that the cache must not publish are reported, in words, and the nearest legal passes.

Method: reserve what the plan asks for and validate it, as an engine does before publishing.
"""

from __future__ import annotations

import pytest
from cache_steps import Row, admit, cache_of, plan_of
from pa_spec import ContractViolation, StepId, rules


@pytest.mark.rule("V94")
@pytest.mark.parametrize(
    ("rows", "legal", "message"),
    [
        pytest.param(
            (Row(0, 100, 10), Row(0, 100, 10)),
            (Row(0, 100, 10), Row(1, 101, 10)),
            "plan.unique_rows: resident 0 has two rows",
            id="request twice",
        ),
        pytest.param(
            (Row(0, 100, 0, tokens=10, is_new=True),),
            (Row(2, 102, 0, tokens=10, is_new=True),),
            "row.request: resident 0 belongs to request 100, expected -1",
            id="new row that is resident",
        ),
        pytest.param(
            (Row(2, 102, 0),),
            (Row(2, 102, 0, is_new=True),),
            "row.request: resident 2 belongs to request -1, expected 102",
            id="resident row that is not",
        ),
        pytest.param(
            (Row(0, 100, 10, tokens=-1),),
            (Row(0, 100, 10, tokens=1),),
            "row.target_tokens: resident 0: target 9 is not from 11 to 16",
            id="target below committed tokens",
        ),
    ],
)
def test_plan_that_contradicts_the_residents_is_reported(
    rows: tuple[Row, ...], legal: tuple[Row, ...], message: str
) -> None:
    cache = cache_of(8)
    admit(cache, 10, 10)
    before = cache.audit.snapshot()

    wrong = cache.reserve(StepId(2), plan_of(rows))

    found = [str(each) for each in wrong.validate()]
    assert found[0] == message
    assert found[0].split(":")[0] in rules()["V94"].checks
    wrong.discard()
    assert cache.audit.snapshot() == before
    assert cache.reserve(StepId(3), plan_of(legal)).validate() == []


@pytest.mark.spec("V94", "E61")
def test_plan_with_more_rows_than_there_are_places_is_refused() -> None:
    cache = cache_of(8, max_batch_size=2)
    admit(cache, 10)

    with pytest.raises(ContractViolation) as refused:
        cache.reserve(StepId(2), plan_of([Row(2, 102, 0, is_new=True)]))

    assert str(refused.value) == "plan.resident: expected indices from 0 to 1, got 2 to 2 (E61)"
    cache.reserve(StepId(2), plan_of([Row(1, 102, 0, is_new=True)]))
