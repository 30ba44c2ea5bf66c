"""Counts and times: what each kind of call adds, and what a failed step leaves alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from engine_cases import CONFIG, NUM_BLOCKS, fake_engine, run_to_end
from pa_engine import EngineStatistics, GeneratorParams
from pa_engine.statistics import StatisticsRecorder
from pa_engine.testing import FailAt, FakeExecutor, expected_tokens
from pa_spec import EngineConfig, FaultKind, Outcome

COUNTS = ("steps", "rows", "prompt_tokens", "generated_tokens", "deferred_rows")


def _counts(statistics: EngineStatistics) -> dict[str, int]:
    return {name: getattr(statistics, name) for name in COUNTS}


def _outcomes(statistics: EngineStatistics) -> dict[Outcome, int]:
    return {outcome: times for outcome, times in statistics.outcomes.items() if times}


def test_steps_rows_and_tokens_add_up() -> None:
    engine = fake_engine(replace(CONFIG, chunk_size=4))
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=3)) for _ in range(2)]
    requests[0].begin_turn([1, 2, 3])
    requests[1].begin_turn(list(range(10)))

    run_to_end(engine)

    # Chunks of 10 tokens: 4, 4, 2; the short prompt decodes beside them.
    expected = {
        "steps": 5,
        "rows": 8,
        "prompt_tokens": 13,
        "generated_tokens": 6,
        "deferred_rows": 0,
    }
    statistics = engine.statistics()
    assert _counts(statistics) == expected
    assert statistics.mean_rows == 8 / 5
    assert _outcomes(statistics) == {Outcome.COMMITTED: 5}
    assert (statistics.peak_blocks_used, statistics.total_blocks) == (2, NUM_BLOCKS)


def test_an_end_token_is_no_generated_token() -> None:
    prompt = [1, 2, 3]
    second = expected_tokens(prompt, 2)[1]
    engine = fake_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=[second]))
    request.begin_turn(prompt)

    run_to_end(engine)

    assert engine.statistics().generated_tokens == 1
    assert engine.statistics().steps == 2


@pytest.mark.spec("E90")
def test_rows_without_room_are_counted_also_when_others_run() -> None:
    engine = fake_engine(
        EngineConfig(num_blocks=2, max_batch_size=3), executor=FakeExecutor(num_blocks=2)
    )
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=2)) for _ in range(3)]
    for request in requests:
        request.begin_turn([1] * 15)

    engine.run()

    assert _counts(engine.statistics())["deferred_rows"] == 1
    assert engine.statistics().rows == 2
    engine.run()
    engine.run()
    assert _outcomes(engine.statistics()) == {
        Outcome.COMMITTED: 2,
        Outcome.CAPACITY_DEFERRED: 1,
    }


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (FaultKind.ABORT, Outcome.RETRYABLE_BATCH_ABORT),
        (FaultKind.OUT_OF_MEMORY, Outcome.EXECUTION_CAPACITY_EXCEEDED),
        (FaultKind.UNKNOWN, Outcome.FATAL_EXECUTION_FAILURE),
    ],
)
def test_a_step_that_did_not_commit_is_an_outcome_and_nothing_else(
    kind: FaultKind, outcome: Outcome
) -> None:
    engine = fake_engine(observer=FailAt(4, kind))
    request = engine.create_request()
    request.begin_turn([1, 2])

    engine.run()

    statistics = engine.statistics()
    assert _counts(statistics) == dict.fromkeys(COUNTS, 0)
    assert (statistics.host_seconds, statistics.execution_seconds) == (0, 0)
    assert _outcomes(statistics) == {outcome: 1}


def test_delivering_retained_events_and_looking_are_no_steps() -> None:
    engine = fake_engine()
    requests = [engine.create_request() for _ in range(2)]
    for request in requests:
        request.begin_turn([1, 2])
    engine.run(max_events=1)
    before = engine.statistics()

    engine.run(max_events=1)
    engine.run(max_events=0)

    assert engine.statistics() == before
    engine_without_work = fake_engine()
    engine_without_work.run()
    assert _outcomes(engine_without_work.statistics()) == {Outcome.NO_WORK: 1}


def test_statistics_are_a_value_that_later_steps_do_not_change() -> None:
    engine = fake_engine()
    request = engine.create_request()
    request.begin_turn([1, 2])
    engine.run()
    early = engine.statistics()

    engine.run()

    assert (early.steps, engine.statistics().steps) == (1, 2)
    assert early.outcomes[Outcome.COMMITTED] == 1
    with pytest.raises(FrozenInstanceError):
        early.steps = 3  # type: ignore[misc]


def test_rates_are_zero_before_the_first_step_and_shares_add_up() -> None:
    nothing = StatisticsRecorder().read(4)
    some = StatisticsRecorder(steps=4, rows=10, host_ns=2_000_000, execution_ns=6_000_000).read(4)

    assert (nothing.mean_rows, nothing.host_us_per_step, nothing.host_share) == (0, 0, 0)
    assert some.mean_rows == 2.5
    assert some.host_us_per_step == pytest.approx(500)
    assert some.host_share == pytest.approx(0.25)
