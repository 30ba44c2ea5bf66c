"""Whatever a broken policy plans ends in a contract or fatal failure: never in a wrong answer,
never in an endless retry, and never with more or less than one terminal event for each turn.
"""

from __future__ import annotations

from collections import Counter

import pytest
from engine_cases import BusyEngine, busy_engine, fake_engine
from malformed_plans import MALFORMED, BrokenPolicy, Malformed
from pa_engine import GeneratorParams
from pa_spec import (
    Candidates,
    EngineFailed,
    EventFlags,
    InvariantViolation,
    RequestState,
    ResidentView,
    WaitingView,
)

FATAL = EventFlags.TURN_FINISHED | EventFlags.FAILED
CASES = [
    pytest.param(malformed, when, id=f"{malformed.name} ({when})")
    for malformed in MALFORMED
    for when in ("decode", "admission")
    if malformed.when in (when, "both")
]


def _arriving(policy: BrokenPolicy) -> BusyEngine:
    """Return an engine to which two requests come."""
    engine = fake_engine(policy=policy)
    params = GeneratorParams(max_generated_tokens=5)
    first, second = (engine.create_request(params) for _ in range(2))
    first.begin_turn([1, 2, 3])
    second.begin_turn([4, 5])
    return BusyEngine(engine, first, second, first, first, first)


@pytest.mark.parametrize(("malformed", "when"), CASES)
@pytest.mark.spec("E18", "E49", "E61", "E84", "E87", "E88")
def test_a_malformed_plan_stops_the_engine_and_leaves_what_was_committed(
    malformed: Malformed, when: str
) -> None:
    policy = BrokenPolicy()
    busy = busy_engine(policy=policy) if when == "decode" else _arriving(policy)
    engine, before = busy.engine, busy.engine.snapshot()
    policy.change = malformed.change
    running = [
        request
        for request in (busy.decoding, busy.other, busy.waiting)
        if request.state in (RequestState.ACTIVE, RequestState.ASSIGNED)
    ]

    events = list(engine.run())

    assert Counter(event.request for event in events) == Counter(set(running))
    assert {event.flags for event in events} == {FATAL}
    with pytest.raises(EngineFailed) as stored:
        engine.run()
    if malformed.check_id:
        assert isinstance(stored.value, InvariantViolation)
        assert malformed.check_id in {each.check_id for each in stored.value.violations}
    after = engine.snapshot()
    assert after.cache == before.cache
    assert [row.tokens for _, row in after.rows] == [row.tokens for _, row in before.rows]
    assert engine.check_all() == ()


@pytest.mark.spec("E47", "E87")
def test_a_policy_that_plans_nothing_while_requests_wait_stops_the_engine() -> None:
    class IdlePolicy(BrokenPolicy):
        def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
            every = super().order(residents, waiting)
            return Candidates(
                every.resident[:0],
                every.request[:0],
                every.committed_tokens[:0],
                every.sequence_tokens[:0],
                every.limit_tokens[:0],
                every.is_prefill[:0],
                every.free_resident,
            )

    busy = _arriving(IdlePolicy())

    events = list(busy.engine.run())

    assert {event.flags for event in events} == {FATAL}
    with pytest.raises(EngineFailed, match="planned no work although requests wait"):
        busy.engine.run()
