"""Results reach the sink whatever ends a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pa_engine.testing import FaultyCall, fault_error
from pa_serve import ExitStatus
from pa_serve.progress import AnswerProgress
from pa_serve.prompt_line import PromptLine
from pa_serve.result import Result
from pa_serve.sampling import Sampling
from pa_serve.serving_options import ServingOptions
from pa_serve.serving_run import RunOutcome, ServingRun
from pa_spec import ElementType, FaultKind, InputUnusable
from serving_doubles import LetterCodec, config, kitchen


class ListSink:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def write(self, result: Result) -> None:
        self.results.append(result)

    def end(self, *, complete: bool) -> Path | None:
        raise AssertionError("the run does not end its sink")

    @property
    def indices(self) -> list[int]:
        return [result.index for result in self.results]


def short_answers_behind_a_long_one() -> list[PromptLine]:
    limits = (60, 2, 3, 1)
    return [
        PromptLine(index, f"line {index + 1}", "a", Sampling(max_new_tokens=limit))
        for index, limit in enumerate(limits)
    ]


def serving(fault: FaultyCall | None = None) -> tuple[ServingRun, ListSink]:
    limits = config(64, max_batch_size=4)
    engine = kitchen(limits, fault).engine
    options = ServingOptions(ElementType.FLOAT32, Sampling(), limits)
    return ServingRun(engine, LetterCodec(), options), ListSink()


def test_results_are_written_in_order_and_counted() -> None:
    run, sink = serving()
    asked = [*short_answers_behind_a_long_one(), PromptLine(4, "line 5", error="JSON: bad")]

    outcome = run.serve(asked, sink, AnswerProgress(5))

    assert sink.indices == [0, 1, 2, 3, 4]
    assert outcome == RunOutcome(4, 1, "line 5: JSON: bad")
    assert outcome.status is ExitStatus.INPUT_UNUSABLE
    report = run.report(("cpu",)).as_record()
    assert report["generated_tokens"] == 66
    assert report["generated_tokens_per_s"] == 66 / run.report(()).seconds


def test_finished_results_behind_an_unfinished_one_survive_an_input_that_breaks() -> None:
    def source() -> Iterator[PromptLine]:
        yield from short_answers_behind_a_long_one()
        for index in range(4, 12):
            yield PromptLine(index, "", "b", Sampling(max_new_tokens=1))
        raise InputUnusable("in.jsonl", "went away")

    run, sink = serving()

    with pytest.raises(InputUnusable, match="went away"):
        run.serve(source(), sink, AnswerProgress(None))

    assert 0 not in sink.indices
    assert set(sink.indices) >= {1, 2, 3}
    assert sink.indices == sorted(sink.indices)


def test_an_engine_that_fails_is_status_1_and_finished_results_are_there() -> None:
    run, sink = serving(FaultyCall("launch", 20, fault_error(FaultKind.UNKNOWN)))

    outcome = run.serve(short_answers_behind_a_long_one(), sink, AnswerProgress(4))

    assert outcome.status is ExitStatus.ENGINE_FAILED
    assert not outcome.is_complete
    assert [result.error is None for result in sink.results] == [False, True, True, True]
    assert "an unknown failure" in outcome.failure


def test_a_run_in_which_nothing_was_served_is_not_complete() -> None:
    run, sink = serving()

    outcome = run.serve([PromptLine(0, "line 1", error="JSON: bad")], sink, AnswerProgress(1))

    assert not outcome.is_complete
    assert outcome.status is ExitStatus.INPUT_UNUSABLE
