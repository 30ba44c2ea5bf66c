"""Goal: each rule that the engine decides is said in its words; the nearest legal call passes.

Method: two calls on like engines, one that breaks the rule and one that just does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_cases import CONFIG, busy_engine, fake_engine
from malformed_plans import BrokenPolicy
from pa_engine import Engine, GeneratorParams, RequestOptions, TorchExecutor
from pa_engine.testing import FakeExecutor
from pa_spec import (
    ContractViolation,
    ElementType,
    EngineConfig,
    EngineFailed,
    GroupKind,
    InvariantViolation,
    StateGroup,
    StateManifest,
    StepPlan,
    rules,
)
from rule_cases import Call, given, in_turn, message_of
from tiny_decoder import TinyDecoder

INT32_MAX = 2**31 - 1
SESSION = FakeExecutor(num_blocks=12).config.context_length


@pytest.mark.rule("V87")
@pytest.mark.parametrize(
    ("wrong", "legal", "message"),
    [
        ({"do_sample": 1}, {"do_sample": True}, "do_sample: expected True or False, got 1"),
        (
            {"temperature": -1.0},
            {"temperature": 0.0},
            "temperature: expected a number from 0 to 3.40282e+38, got -1.0",
        ),
        ({"top_p": 1.5}, {"top_p": 1.0}, "top_p: expected a number from 0 to 1, got 1.5"),
        (
            {"repetition_penalty": 0.0},
            {"repetition_penalty": 2.0**-126},
            "repetition_penalty: expected a number from 1.17549e-38 to 3.40282e+38, got 0.0",
        ),
        ({"top_k": -1}, {"top_k": 0}, "top_k: expected an integer from 0 to 2147483647, got -1"),
        (
            {"eos_token_ids": "2"},
            {"eos_token_ids": [2]},
            "eos_token_ids: expected a sequence of token ids, got '2'",
        ),
        (
            {"min_generated_tokens": 4, "max_generated_tokens": 3},
            {"min_generated_tokens": 3, "max_generated_tokens": 3},
            "min_generated_tokens: expected at most max_generated_tokens 3, got 4",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(
    wrong: dict[str, Any], legal: dict[str, Any], message: str
) -> None:
    GeneratorParams(**legal)

    with pytest.raises(ContractViolation) as refused:
        GeneratorParams(**wrong)

    assert str(refused.value) == f"{message} (V87)"


@pytest.mark.rule("V87")
def test_parameters_of_another_kind_are_refused() -> None:
    found = message_of(given, lambda engine, _: engine.create_request({}))  # type: ignore[arg-type]

    assert found == "params: expected GeneratorParams, got dict (V87)"
    given()[0].create_request(GeneratorParams())


@pytest.mark.rule("V88")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (SESSION + 1, f"at most {SESSION}, the engine's limit, got {SESSION + 1}"),
        (INT32_MAX + 1, f"an integer from 0 to {INT32_MAX}, got {INT32_MAX + 1}"),
        (-1, f"an integer from 0 to {INT32_MAX}, got -1"),
    ],
)
def test_session_limit_above_the_engines_is_refused(wrong: int, message: str) -> None:
    engine, _ = given()
    engine.create_request(options=RequestOptions(max_session_tokens=SESSION))

    found = message_of(
        given, lambda engine, _: engine.create_request(options=RequestOptions(wrong))
    )

    assert found == f"max_session_tokens: expected {message} (V88)"


@pytest.mark.rule("V92")
@pytest.mark.parametrize(
    ("wrong", "legal", "message"),
    [
        (
            lambda engine, _: engine.run(fake_engine().create_event_buffer(4)),
            lambda engine, _: engine.run(engine.create_event_buffer(4)),
            "buffer: expected a buffer of this engine, got another's",
        ),
        (
            lambda engine, _: engine.run(engine.create_event_buffer(4), max_events=4),
            lambda engine, _: engine.run(max_events=4),
            "run: expected a buffer or max_events, got both",
        ),
        (
            lambda engine, _: engine.run(max_events=-1),
            lambda engine, _: engine.run(max_events=0),
            "capacity: expected an integer from 0 to 2147483647, got -1",
        ),
        (
            lambda engine, _: engine.run([]),
            lambda engine, _: engine.run(None),
            "buffer: expected EventBuffer, got list",
        ),
    ],
)
def test_run_refuses_what_is_no_buffer_of_its_own(wrong: Call, legal: Call, message: str) -> None:
    assert message_of(in_turn, wrong) == f"{message} (V92)"

    legal(*in_turn())


@pytest.mark.rule("V92")
def test_executor_without_its_methods_is_refused() -> None:
    wrong: Any = object()

    with pytest.raises(ContractViolation) as refused:
        Engine(wrong, CONFIG)

    assert str(refused.value) == (
        "executor: expected a pa_spec.ModelExecutor, got object without manifest (V92)"
    )
    Engine(FakeExecutor(num_blocks=4), CONFIG)


def _tokens(count: int) -> Callable[[StepPlan], StepPlan]:
    """Return the change that gives the first row that many tokens and moves the rest behind."""

    def change(plan: StepPlan) -> StepPlan:
        tokens, target = plan.tokens.copy(), plan.target_tokens.copy()
        tokens[0], target[0] = count, plan.past_tokens[0] + count
        offset = (np.cumsum(tokens) - tokens).astype(np.int32)
        rows = (offset + tokens - 1).astype(np.int32)
        total = int(tokens.sum())
        changed = replace(plan, tokens=tokens, target_tokens=target, packed_offset=offset)
        return replace(changed, logits_rows=rows, total_tokens=total)

    return change


@pytest.mark.rule("V95")
@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "row.target_tokens: resident 0: target 4 is not from 5 to 16"),
        (2, "counters.order: resident 0: committed 6 is not from 0 to sequence 5"),
    ],
)
def test_row_with_no_tokens_or_too_many_stops_the_engine(count: int, message: str) -> None:
    policy = BrokenPolicy()
    busy = busy_engine(policy=policy)
    policy.change = _tokens(count)

    list(busy.engine.run())

    with pytest.raises(EngineFailed) as stored:
        busy.engine.run()
    assert isinstance(stored.value, InvariantViolation)
    assert message in [str(each) for each in stored.value.violations]
    assert message.split(":", maxsplit=1)[0] in rules()["V95"].checks
    policy = BrokenPolicy()
    busy = busy_engine(policy=policy)
    policy.change = _tokens(1)
    assert all(event.token >= 0 for event in busy.engine.run())


@pytest.mark.spec("V72")
def test_configuration_of_another_kind_is_refused() -> None:
    wrong: Any = {}

    with pytest.raises(ContractViolation) as refused:
        Engine(FakeExecutor(num_blocks=4), wrong)

    assert str(refused.value) == "config: expected EngineConfig, got dict (V72)"


@pytest.mark.spec("V77", "V82")
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (2, "state_groups: expected exactly one group of kind paged_kv, got 2 of them (V82)"),
        (1, "layer_ids: expected each layer id once, got paged_kv: [0, 0] (V77)"),
    ],
)
def test_engine_refuses_a_decoder_whose_manifest_is_none(groups: int, message: str) -> None:
    layers = (0, 0) if groups == 1 else (0,)
    group = StateGroup(GroupKind.PAGED_KV, layers, (1, 16), ElementType.FLOAT32)
    decoder = TinyDecoder()
    decoder.manifest = StateManifest((group,) * groups)
    config = EngineConfig(num_blocks=4)

    with pytest.raises(ContractViolation) as refused:
        Engine(TorchExecutor(decoder), config)

    assert str(refused.value) == message
    Engine(TorchExecutor(TinyDecoder()), config)
