"""A user's file: it must type-check against the public names of pa_engine."""

from __future__ import annotations

from collections.abc import Mapping

from pa_engine import (
    IMPLEMENTS_CONTRACT,
    Engine,
    EngineSnapshot,
    EngineStatistics,
    Event,
    EventBatch,
    EventBuffer,
    GeneratorParams,
    NullExecutor,
    Request,
    RequestOptions,
    TorchExecutor,
    Turn,
    TurnOptions,
    Usage,
)
from pa_engine.testing import CallRecorder, FailAt, FakeExecutor, FakeStep, expected_tokens
from pa_spec import (
    Decoder,
    EngineConfig,
    EventFlags,
    FaultKind,
    FinishReason,
    Int64Array,
    ModelExecutor,
    Outcome,
    SchedulerPolicy,
    StepCache,
    StepObserver,
    TurnId,
    Violation,
)
from torch import Tensor

contract: str = IMPLEMENTS_CONTRACT
observers: tuple[StepObserver, ...] = (CallRecorder(), FailAt(1, FaultKind.ABORT))


def compose(decoder: Decoder[Tensor], cache: StepCache, policy: SchedulerPolicy) -> None:
    engine = Engine(TorchExecutor(decoder), EngineConfig(), cache=cache, policy=policy)
    engine.close()


def null() -> Engine[int]:
    executor: ModelExecutor[int] = NullExecutor(token=3)
    return Engine(executor)


def talk(engine: Engine[FakeStep]) -> dict[int, list[int]]:
    params = GeneratorParams(do_sample=True, temperature=0.7, top_p=0.9, seed=1)
    request: Request = engine.create_request(params, RequestOptions(max_session_tokens=100))
    turn_id: TurnId = request.begin_turn([1, 2], TurnOptions(max_generated_tokens=8))
    buffer: EventBuffer = engine.create_event_buffer(16)
    answers: dict[int, list[int]] = {}
    while engine.has_pending_requests():
        batch: EventBatch = engine.run(buffer)
        tokens: Int64Array = batch.tokens
        for event, token in zip(batch, tokens.tolist(), strict=True):
            if event.flags & EventFlags.TOKEN and event.request is not None:
                answers.setdefault(event.request.id, []).append(token)
    was_running: bool = request.cancel_turn(turn_id)
    turn: Turn | None = request.turn
    if turn is not None and not was_running:
        reason: FinishReason = turn.finish_reason
        usage: Usage = turn.usage
        answers[-1] = [reason, usage.prompt_tokens]
    request.close()
    return answers


def look(engine: Engine[FakeStep]) -> tuple[float, Mapping[Outcome, int], EngineSnapshot]:
    statistics: EngineStatistics = engine.statistics()
    broken: tuple[Violation, ...] = engine.check_all()
    first: Event = engine.run(max_events=1)[0]
    rest: EventBatch = engine.run()[1:]
    cost = statistics.host_us_per_step + len(broken) + first.token + len(rest)
    return cost, statistics.outcomes, engine.snapshot()


talk(Engine(FakeExecutor(num_blocks=4)))
answer: list[int] = expected_tokens([1, 2], 3)
