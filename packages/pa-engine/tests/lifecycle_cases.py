"""Small engines on the fake executor, and how to read what they did."""

from __future__ import annotations

from typing import TypeVar

from pa_engine import (
    Engine,
    Event,
    Request,
)
from pa_engine.testing import (
    FakeExecutor,
    FakeStep,
)
from pa_spec import (
    EngineConfig,
    EventFlags,
)

HandleT = TypeVar("HandleT")
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def make_engine(num_blocks: int = 16, **config: int | bool) -> Engine[FakeStep]:
    limits = {"max_batch_size": 4, "max_scheduled_tokens": 64} | config
    executor = FakeExecutor(num_blocks=num_blocks, context_length=1024)
    return Engine(executor, EngineConfig(num_blocks=num_blocks, **limits))  # type: ignore[arg-type]


def drain(engine: Engine[HandleT], calls: int = 500) -> list[Event]:
    events: list[Event] = []
    for _ in range(calls):
        if not engine.has_pending_requests():
            return events
        events += engine.run()
    raise AssertionError(engine)


def tokens_of(events: list[Event], request: Request) -> list[int]:
    return [e.token for e in events if e.request is request and e.flags & EventFlags.TOKEN]


def make_engine_and_request() -> tuple[Engine[FakeStep], Request]:
    engine = make_engine()
    return engine, engine.create_request()
