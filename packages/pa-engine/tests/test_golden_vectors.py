"""The engine lives the contract's golden stories: states, steps, packed layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pa_engine import (
    Engine,
    Event,
    GeneratorParams,
    Request,
    RequestOptions,
    StepPacker,
    TurnOptions,
)
from pa_engine.testing import FakeExecutor, FakeStep, expected_tokens
from pa_spec import (
    ContractViolation,
    EngineConfig,
    ErrorCode,
    EventFlags,
    InputUnusable,
    StepLimits,
    vectors,
)
from recording_executor import RecordingExecutor, ScriptedExecutor
from step_plans import Row, step_work

Case = Mapping[str, Any]
PROMPT = [3, 1, 4]


def name_of(case: Case) -> str:
    return str(case["id"])


@pytest.mark.spec("E51", "E68", "E69")
@pytest.mark.parametrize("case", vectors("packed_layout"), ids=name_of)
def test_a_step_is_packed_as_the_contract_says(case: Case) -> None:
    triples = zip(case["past"], case["tokens"], case["samples"], strict=True)
    rows = [
        Row(place, past, tuple(range(tokens)), samples)
        for place, (past, tokens, samples) in enumerate(triples)
    ]
    packer = StepPacker(StepLimits(len(rows), 64), columns=4, device="cpu")

    packed = packer.pack(step_work(rows))

    assert packed.cumulative_sequence_length.tolist() == case["cumulative_sequence_length"]
    assert packed.past_seqlens.tolist() == case["past"]
    assert packed.logits_rows.tolist() == case["logits_rows"]
    assert packed.attention_metadata.tolist() == case["attention_metadata"]


class Story:
    """One request, driven by the words of a lifecycle."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.executor = FakeExecutor(num_blocks=8)
        self.engine = Engine(self.executor, EngineConfig(num_blocks=8))
        self.request = self.engine.create_request()
        self.sequence: list[int] = []
        self.turn_ids: list[int] = []
        self.seen: list[Event] = []

    def tell(self, place: int) -> None:
        word = self.events[place]
        if word == "begin_turn":
            self.begin(self.commits_after(place))
        elif word == "cancel_turn":
            assert self.request.cancel_turn(self.turn_ids[-1])
            self.run()
        elif word == "close":
            self.request.close()
        else:
            self.step(fails=word == "fail")

    def commits_after(self, place: int) -> int:
        """Return how many tokens the turn has if it ends by its limit."""
        for count, word in enumerate(self.events[place + 1 :], 1):
            if word == "finish":
                return count
            if word != "commit":
                break
        return 50

    def begin(self, tokens: int) -> None:
        turn = self.request.begin_turn(PROMPT, TurnOptions(max_generated_tokens=tokens))
        self.turn_ids.append(int(turn))
        self.sequence += PROMPT

    def step(self, *, fails: bool) -> None:
        answer = expected_tokens(self.sequence, 1)
        self.executor.faulty_tokens = tuple(answer) if fails else ()
        self.run()
        if not fails:
            self.sequence += answer

    def run(self) -> None:
        self.seen += self.engine.run()

    def refuses(self, word: str) -> bool:
        """Say whether an event that the state does not have is refused, or comes to nothing."""
        if word == "begin_turn":
            with pytest.raises(ContractViolation, match=r"\(V89\)"):
                self.begin(1)
        elif word == "cancel_turn":
            try:
                return not self.request.cancel_turn(self.turn_ids[-1] if self.turn_ids else 1)
            except ContractViolation as refused:
                return refused.rule_id == "V91"
        else:
            assert not self.engine.has_pending_requests()
            assert list(self.engine.run()) == []
        return True


@pytest.mark.spec("E7", "E8", "E12", "E15", "E17", "E18", "E19", "E20")
@pytest.mark.parametrize("case", vectors("request_lifecycles"), ids=name_of)
def test_a_request_lives_as_the_contract_says(case: Case) -> None:
    story = Story(case["events"])
    states = [story.request.state.name]
    for place in range(len(case["events"])):
        story.tell(place)
        states.append(story.request.state.name)

    assert states == case["states"]
    assert story.turn_ids == case["turn_ids"]
    terminal = [event for event in story.seen if event.flags & EventFlags.TURN_FINISHED]
    assert len(terminal) == case["terminal_events"]
    assert story.refuses(case["refused"])
    assert story.request.state.name == states[-1]


def start(case: Case) -> tuple[Engine[FakeStep], RecordingExecutor, list[Request]]:
    config = case["config"]
    fake = FakeExecutor(num_blocks=config["num_blocks"], block_size=config["block_size"])
    executor = RecordingExecutor(fake)
    engine = Engine(executor, EngineConfig(**config))
    requests = []
    for place, each in enumerate(case["requests"]):
        limit = GeneratorParams(max_generated_tokens=each["generates"], ignore_eos=True)
        requests.append(engine.create_request(limit))
        requests[-1].begin_turn([(place * 7 + token) % 90 for token in range(each["prompt"])])
    return engine, executor, requests


def owner_of(event: Event) -> Request:
    assert event.request is not None
    return event.request


@pytest.mark.spec("E17", "E41", "E42", "E43", "E44", "E45", "E46", "E47", "E48", "E50", "E51")
@pytest.mark.parametrize("case", vectors("engine_steps"), ids=name_of)
def test_an_engine_steps_as_the_contract_says(case: Case) -> None:
    engine, executor, requests = start(case)
    place_of = {int(request.id): place for place, request in enumerate(requests)}

    for step in case["steps"]:
        launched = len(executor.plans)
        events = list(engine.run())

        plans = executor.plans[launched:]
        rows = [
            [place_of[int(request)], int(past), int(tokens)]
            for plan in plans
            for request, past, tokens in zip(
                plan.request, plan.past_tokens, plan.tokens, strict=True
            )
        ]
        assert rows == step["rows"]
        ended = [each for each in events if each.flags & EventFlags.TURN_FINISHED]
        failed = [each for each in ended if each.error_code is ErrorCode.REQUEST_UNSERVICEABLE]
        done = [each for each in ended if not each.flags & EventFlags.FAILED]
        assert [requests.index(owner_of(each)) for each in failed] == step["unserviceable"]
        assert [requests.index(owner_of(each)) for each in done] == step["finished"]
        for plan in plans:
            assert [place_of[int(each)] for each in plan.deferred] == step["deferred"]
        if case["closes"]:
            for each in ended:
                owner_of(each).close()

    behind = list(engine.run())
    blocked = [each for each in behind if each.flags & EventFlags.CAPACITY_BLOCKED]
    assert bool(blocked) == (case["ends"] == "CAPACITY_DEFERRED")
    assert len(behind) == len(blocked)


@pytest.mark.spec("E13", "E14", "E16", "E18")
@pytest.mark.parametrize("case", vectors("turn_ends"), ids=name_of)
def test_a_turn_ends_as_the_contract_says(case: Case) -> None:
    executor = ScriptedExecutor(tuple(case["eos_token_ids"]))
    engine = Engine(executor, EngineConfig(num_blocks=8))
    session = RequestOptions(max_session_tokens=case["max_session_tokens"])
    request = engine.create_request(options=session)
    for turn in case["turns"]:
        executor.answers = list(turn["answers"])
        limit = TurnOptions(max_generated_tokens=turn["limit"])
        request.begin_turn([11] * turn["prompt"], limit)

        events: list[Event] = []
        while engine.has_pending_requests():
            events += engine.run()

        ends = [each for each in events if each.flags & EventFlags.TURN_FINISHED]
        assert [each.token for each in events if each.flags & EventFlags.TOKEN] == turn["tokens"]
        assert [each.finish_reason.name for each in ends] == [turn["finish_reason"]]
        assert [each.usage.generated_tokens for each in ends] == [len(turn["tokens"])]
        assert len(request.tokens) == turn["sequence_tokens"]
        assert executor.answers == []

    with pytest.raises(InputUnusable, match=r"leave no room for a generated one.*\(V89\)"):
        request.begin_turn([11] * case["refused_prompt"])
    if case["refused_prompt"] > 1:
        request.begin_turn([11] * (case["refused_prompt"] - 1))
