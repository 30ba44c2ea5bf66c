"""The serving loop on a real engine whose answers are known without a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pa_engine.testing import FaultyCall, fault_error
from pa_serve.batch_server import BatchServer
from pa_serve.prompt_line import PromptLine
from pa_serve.sampling import Sampling
from pa_spec import FaultKind
from serving_doubles import (
    LetterCodec,
    WatchedEngine,
    answers,
    config,
    fake_executor,
    is_unused,
    kitchen,
    lines,
    served,
)


def test_prompts_are_answered_together_and_each_as_if_alone() -> None:
    cook = kitchen(config(64, max_batch_size=8))
    prompts = ["a" * length for length in (1, 30, 2, 17, 16, 5, 40, 3)]

    results = sorted(cook.server.serve(lines(*prompts)), key=lambda result: result.index)

    assert all(served(*pair) for pair in zip(prompts, [8] * 8, results, strict=True))
    assert [result.finish_reason for result in results] == ["length"] * 8
    assert [result.prompt_tokens for result in results] == [len(prompt) for prompt in prompts]
    assert results[2].text == "2:" + " ".join(map(str, answers("aa", 8)))
    assert cook.statistics.mean_rows > 4
    assert sum(cook.steps) == 64
    assert is_unused(cook)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12),
    st.integers(1, 6),
    st.sampled_from([1, 7, 64]),
)
def test_every_prompt_is_answered_or_refused_in_a_pool_of_any_size(
    shapes: list[tuple[int, int]], num_blocks: int, budget: int
) -> None:
    cook = kitchen(config(num_blocks, max_batch_size=4, max_scheduled_tokens=budget))
    asked = [
        PromptLine(index, "", "x" * length, Sampling(max_new_tokens=limit))
        for index, (length, limit) in enumerate(shapes)
    ]

    results = {result.index: result for result in cook.server.serve(asked)}

    assert sorted(results) == list(range(len(shapes)))
    for index, (length, limit) in enumerate(shapes):
        # The last token that a turn may generate is never stored.
        fits = length + limit - 1 <= num_blocks * 16
        if fits:
            assert served("x" * length, limit, results[index])
        else:
            error = results[index].error
            assert error is not None
            assert f"its {length} tokens and up to {limit} new ones can never fit" in error
    assert is_unused(cook)


def test_a_request_that_never_fits_does_not_hold_up_the_others() -> None:
    cook = kitchen(config(2, max_batch_size=4))
    asked = lines("ab", "c" * 40, "d")

    results = {result.index: result for result in cook.server.serve(asked)}

    assert served("ab", 8, results[0])
    assert served("d", 8, results[2])
    assert results[1].error is not None
    assert "allowed: what 2 cache blocks hold" in results[1].error


def test_input_is_read_only_as_far_as_the_engine_has_room() -> None:
    cook = kitchen(config(64, max_batch_size=2))
    read: list[int] = []

    def source() -> Iterator[PromptLine]:
        for index in range(50):
            read.append(index)
            yield PromptLine(index, "", "abc")

    first = next(cook.server.serve(source()))

    assert first.index == 0
    assert len(read) <= 4 + 1


def test_leaving_early_closes_every_request() -> None:
    cook = kitchen(config(64, max_batch_size=4))

    for _ in cook.server.serve(lines(*"abcdefgh")):
        break

    assert is_unused(cook)


def test_being_told_to_stop_ends_after_the_step_and_closes_every_request() -> None:
    cook = kitchen(config(64, max_batch_size=4))

    results = list(cook.server.serve(lines(*"abcdefgh"), lambda: len(cook.steps) >= 3))

    assert results == []
    assert len(cook.steps) == 3
    assert is_unused(cook)


def test_unusable_lines_have_their_error_and_cost_the_others_nothing() -> None:
    cook = kitchen(config(64, max_batch_size=4))
    asked = lines("a", "?", "b" * 300, "\u4e2d", "c")
    asked.insert(2, PromptLine(9, "line 9", None, error="JSON: bad"))

    results = {result.index: result for result in cook.server.serve(asked)}

    assert served("a", 8, results[0])
    assert served("c", 8, results[4])
    assert results[1].error == "prompt: a question mark; allowed: anything else"
    assert results[9].error == "JSON: bad"
    for index, found in ((2, "300 tokens"), (3, f"token id {ord(chr(0x4E2D))}")):
        error = results[index].error
        assert error is not None
        assert found in error
        assert "allowed" in error
    assert "256" in str(results[2].error)
    assert is_unused(cook)


def test_the_end_of_text_ends_an_answer_unless_a_line_ignores_it() -> None:
    first, second = answers("q", 2)
    cook = kitchen(config(8), executor=fake_executor(8, eos=second))
    asked = [
        PromptLine(0, "", "q"),
        PromptLine(1, "", "q", Sampling(ignore_eos=True, max_new_tokens=3)),
    ]

    ended, went_on = sorted(cook.server.serve(asked), key=lambda result: result.index)

    assert (ended.token_ids, ended.finish_reason) == ((first,), "eos")
    assert (went_on.token_ids, went_on.finish_reason) == (answers("q", 3), "length")


def test_a_prompt_one_token_below_the_session_limit_gets_one_token() -> None:
    cook = kitchen(config(32))

    (result,) = cook.server.serve(lines("y" * 255))

    assert result.finish_reason == "session_length"
    assert result.token_ids == answers("y" * 255, 1)


def test_a_row_without_a_usable_score_fails_alone() -> None:
    bad = answers("bb", 3)[2]
    executor = fake_executor(8, faulty=bad)
    cook = kitchen(config(8), executor=executor, defaults=Sampling(max_new_tokens=3))

    results = {result.index: result for result in cook.server.serve(lines("bb", "k"))}

    assert results[0].error == "the model gave no finite score for any token"
    assert bad not in answers("k", 3)
    assert served("k", 3, results[1])


@pytest.mark.parametrize("kind", [FaultKind.ABORT, FaultKind.OUT_OF_MEMORY])
def test_a_step_that_is_taken_back_once_changes_nothing(kind: FaultKind) -> None:
    cook = kitchen(config(64), FaultyCall("launch", 3, fault_error(kind)))

    results = sorted(cook.server.serve(lines(*"abc")), key=lambda result: result.index)

    assert all(served(*pair) for pair in zip("abc", [8] * 3, results, strict=True))


@pytest.mark.parametrize("kind", [FaultKind.ABORT, FaultKind.OUT_OF_MEMORY])
def test_steps_that_are_always_taken_back_are_given_up(kind: FaultKind) -> None:
    cook = kitchen(config(64), FaultyCall("launch", 3, fault_error(kind), always=True))

    results = list(cook.server.serve(lines(*"abc")))

    assert len(results) == 3
    assert all("no progress" in str(result.error) for result in results)
    assert is_unused(cook)


def test_a_failed_engine_leaves_an_error_for_every_line_that_was_not_done() -> None:
    fault = FaultyCall("launch", 12, fault_error(FaultKind.UNKNOWN))
    cook = kitchen(config(64, max_batch_size=2), fault)

    results = {result.index: result for result in cook.server.serve(lines(*"abcdefgh"))}

    assert sorted(results) == list(range(8))
    assert served("a", 8, results[0])
    assert served("b", 8, results[1])
    assert "an unknown failure" in str(cook.server.failure)
    for index in range(2, 8):
        assert str(results[index].error).startswith("the engine stopped: ")
        assert "an unknown failure" in str(results[index].error)


def test_an_engine_that_fails_in_its_last_step_is_known_to_have_failed() -> None:
    cook = kitchen(config(64), FaultyCall("launch", 2, fault_error(FaultKind.UNKNOWN)))

    (result,) = cook.server.serve(lines("a"))

    assert "an unknown failure" in str(result.error)
    assert cook.server.failure is not None


def test_an_interrupt_in_the_middle_of_a_step_leaves_nothing_behind() -> None:
    interrupt = FaultyCall("launch", 3, KeyboardInterrupt())  # type: ignore[arg-type]
    cook = kitchen(config(64), interrupt)

    with pytest.raises(KeyboardInterrupt):
        list(cook.server.serve(lines(*"abc")))

    assert is_unused(cook)


def test_a_seed_repeats_and_differs_by_place_unless_it_is_the_line_s_own() -> None:
    def streams(asked: list[PromptLine], seed: int) -> list[tuple[int | None, int]]:
        defaults = Sampling(seed=seed, temperature=1, max_new_tokens=2)
        engine = WatchedEngine(kitchen(config(64)).engine)
        list(BatchServer(engine, LetterCodec(), defaults, 4).serve(asked))
        return [(params.seed, params.sample_index) for params in engine.created]

    own = [PromptLine(index, "", "a", Sampling(seed=5)) for index in range(2)]

    assert streams(lines("a", "a"), 3) == [(3, 0), (3, 1)]
    assert streams(own, 3) == [(5, 0), (5, 0)]
