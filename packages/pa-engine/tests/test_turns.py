"""Turns: begin, continue, cancel, and where they end."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
from lifecycle_cases import PROMPT, drain, make_engine, make_engine_and_request, tokens_of
from pa_engine import (
    Engine,
    GeneratorParams,
    RequestOptions,
    TurnOptions,
    Usage,
)
from pa_engine.lifecycle import LAST_TURN_ID
from pa_engine.testing import (
    FakeExecutor,
    expected_tokens,
)
from pa_spec import (
    ContractViolation,
    EventFlags,
    FinishReason,
    InputUnusable,
    RequestState,
)


@pytest.mark.spec("E7", "E8", "E12", "E17")
def test_a_turn_goes_through_its_states_and_the_request_stays_resident() -> None:
    engine = make_engine()
    request = engine.create_request()
    seen = [request.state]

    turn = request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    seen.append(request.state)
    engine.run()
    seen.append(request.state)
    engine.run()
    seen.append(request.state)

    assert turn == 1
    assert [state.name for state in seen] == ["UNASSIGNED", "ASSIGNED", "ACTIVE", "TURN_COMPLETE"]
    assert engine._core.cache.usage.committed == 1
    request.close()
    assert request.state is RequestState.CLOSED
    assert engine._core.cache.usage.free == 16


@pytest.mark.spec("E13", "E14", "E15", "E25", "E29")
def test_continuation_sees_the_whole_conversation() -> None:
    engine = make_engine()
    request = engine.create_request()
    request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=5))
    first = tokens_of(drain(engine), request)
    request.begin_turn([7, 7], TurnOptions(max_generated_tokens=4))

    events = drain(engine)

    assert first == expected_tokens(PROMPT, 5)
    history = [*PROMPT, *first, 7, 7]
    assert tokens_of(events, request) == expected_tokens(history, 4)
    assert events[-1].turn_id == 2
    assert events[-1].usage == Usage(2, 4, 0)
    assert request.tokens.tolist() == history + expected_tokens(history, 4)


@pytest.mark.spec("E16")
def test_end_of_sequence_is_neither_emitted_nor_kept() -> None:
    plain = expected_tokens(PROMPT, 6)
    engine = make_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=(plain[3],)))
    request.begin_turn(PROMPT)

    events = drain(engine)

    assert tokens_of(events, request) == plain[: plain.index(plain[3])]
    assert events[-1].finish_reason is FinishReason.EOS
    assert not events[-1].flags & EventFlags.TOKEN
    assert request.tokens.tolist() == PROMPT + plain[: plain.index(plain[3])]


@pytest.mark.spec("E16", "E27")
def test_a_turn_that_ended_on_eos_continues_from_a_full_cache() -> None:
    plain = expected_tokens(PROMPT, 6)
    engine = make_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=(plain[2],)))
    request.begin_turn(PROMPT)
    drain(engine)
    request.begin_turn([8], TurnOptions(eos_token_ids=(), max_generated_tokens=3))

    events = drain(engine)

    assert tokens_of(events, request) == expected_tokens([*PROMPT, *plain[:2], 8], 3)


@pytest.mark.spec("E13")
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_prompt_at_the_session_limit_is_refused_and_below_it_gets_its_tokens(extra: int) -> None:
    engine = make_engine()
    request = engine.create_request(options=RequestOptions(max_session_tokens=20))
    prompt = [i % 97 for i in range(20 + extra)]
    if extra >= 0:
        before = engine.snapshot()
        with pytest.raises(InputUnusable, match="at most 19"):
            request.begin_turn(prompt)
        assert engine.snapshot() == before
        return

    request.begin_turn(prompt)

    events = drain(engine)
    assert tokens_of(events, request) == expected_tokens(prompt, 1)
    assert events[-1].finish_reason is FinishReason.MAX_SESSION_TOKENS


@pytest.mark.spec("E14")
def test_one_generated_token_is_exactly_one() -> None:
    engine = make_engine()
    request = engine.create_request(GeneratorParams(max_generated_tokens=1))
    request.begin_turn(PROMPT)

    (event,) = drain(engine)

    assert event.token == expected_tokens(PROMPT, 1)[0]
    assert event.flags == EventFlags.TOKEN | EventFlags.TURN_FINISHED
    assert event.finish_reason is FinishReason.MAX_GENERATED_TOKENS


@pytest.mark.spec("E18", "E19")
def test_cancel_ends_the_turn_once_and_keeps_what_is_committed() -> None:
    engine = make_engine()
    request = engine.create_request()
    turn = request.begin_turn(PROMPT)
    first = tokens_of(list(engine.run()) + list(engine.run()), request)

    assert request.cancel_turn(turn)
    assert not request.cancel_turn(turn)
    assert not request.cancel_turn(turn + 1)

    (event,) = drain(engine)
    assert (event.flags, event.finish_reason) == (EventFlags.TURN_FINISHED, FinishReason.CANCELLED)
    assert event.usage == Usage(8, 2, 0)
    request.begin_turn([1], TurnOptions(max_generated_tokens=2))
    history = [*PROMPT, *first, 1]
    assert tokens_of(drain(engine), request) == expected_tokens(history, 2)


@pytest.mark.spec("E19")
def test_cancel_merges_into_the_undelivered_token_event() -> None:
    engine = make_engine()
    others = [engine.create_request() for _ in range(2)]
    for request in others:
        request.begin_turn(PROMPT)
    (first,) = engine.run(max_events=1)
    assert first.request is others[0]

    assert others[1].cancel_turn(1)

    (event,) = engine.run()
    assert event.flags == EventFlags.TOKEN | EventFlags.TURN_FINISHED
    assert event.finish_reason is FinishReason.CANCELLED
    assert event.token == expected_tokens(PROMPT, 1)[0]


@pytest.mark.spec("E15", "E19")
def test_a_turn_cancelled_before_admission_is_prefilled_with_the_next() -> None:
    engine = make_engine()
    request = engine.create_request(GeneratorParams(max_generated_tokens=3))
    turn = request.begin_turn(PROMPT)
    assert request.cancel_turn(turn)
    with pytest.raises(ContractViolation, match="V89"):
        request.begin_turn([1])  # the terminal event has not been taken
    assert [e.finish_reason for e in engine.run()] == [FinishReason.CANCELLED]

    assert request.begin_turn([9, 9]) == 2

    assert tokens_of(drain(engine), request) == expected_tokens([*PROMPT, 9, 9], 3)


@pytest.mark.spec("V89", "E10")
@pytest.mark.parametrize(
    ("tokens", "problem"),
    [
        ([], "empty"),
        ([97], "token id 97"),
        ([-1], "token id -1"),
        ([2**40], "token id"),
        ([1.5], "float64"),
        ([[1]], "rank 2"),
        ("text", "rank 0"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(tokens: list[int], problem: str) -> None:
    engine, request = make_engine_and_request()
    before = engine.snapshot()

    with pytest.raises(InputUnusable, match=problem):
        request.begin_turn(tokens)

    assert engine.snapshot() == before
    request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=2))
    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)


@pytest.mark.spec("E10")
def test_callers_storage_may_change_after_begin_turn() -> None:
    engine, request = make_engine_and_request()
    tokens = np.array(PROMPT, np.int32)
    request.begin_turn(tokens, TurnOptions(max_generated_tokens=2))
    tokens[:] = 0

    assert tokens_of(drain(engine), request) == expected_tokens(PROMPT, 2)


@pytest.mark.spec("V89")
def test_a_second_turn_while_one_runs_is_refused() -> None:
    engine, request = make_engine_and_request()
    request.begin_turn(PROMPT)
    with pytest.raises(ContractViolation, match="ASSIGNED"):
        request.begin_turn(PROMPT)
    engine.run()
    with pytest.raises(ContractViolation, match="ACTIVE"):
        request.begin_turn(PROMPT)


@pytest.mark.spec("E12")
def test_turn_ids_end_before_anything_changes() -> None:
    engine, request = make_engine_and_request()
    request._record.turns = LAST_TURN_ID
    before = engine.snapshot()
    with pytest.raises(ContractViolation, match="V89"):
        request.begin_turn(PROMPT)
    assert engine.snapshot() == before


@pytest.mark.spec("V87", "V88", "V89", "V92", "V72")
def test_arguments_of_another_type_are_refused_before_anything_changes() -> None:
    engine, request = make_engine_and_request()
    before = engine.snapshot()
    calls: list[Callable[[], object]] = [
        lambda: engine.create_request(TurnOptions()),  # type: ignore[arg-type]
        lambda: engine.create_request({}),  # type: ignore[arg-type]
        lambda: engine.create_request(None, {}),  # type: ignore[arg-type]
        lambda: request.begin_turn([1], {}),  # type: ignore[arg-type]
        lambda: request.begin_turn([1], GeneratorParams()),  # type: ignore[arg-type]
        lambda: engine.run("x"),  # type: ignore[arg-type]
        lambda: engine.run(5),  # type: ignore[arg-type]
        lambda: Engine(None),  # type: ignore[arg-type]
        lambda: Engine(FakeExecutor(num_blocks=4), {}),  # type: ignore[arg-type]
    ]

    for call in calls:
        with pytest.raises(ContractViolation):
            call()

    assert engine.snapshot() == before


@pytest.mark.spec("E73", "E75")
def test_a_turn_that_ends_on_eos_has_used_its_random_number() -> None:
    plain = expected_tokens(PROMPT, 3)
    engine = make_engine()
    request = engine.create_request(GeneratorParams(eos_token_ids=(plain[1],)))
    request.begin_turn(PROMPT)

    drain(engine)

    ((_, row),) = engine.snapshot().rows
    assert dict(row.columns)["draws"] == 2  # the token and the end


def test_a_dropped_request_is_cleaned_up_by_the_next_call_that_changes_something() -> None:
    engine = make_engine()
    for _ in range(5):
        engine.create_request()
        gc.collect(0)

    assert len(engine._core.registry.records) <= 1
