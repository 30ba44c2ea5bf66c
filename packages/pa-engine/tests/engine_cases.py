"""Small engines in known situations, shared by the unit tests of pa-engine."""

from __future__ import annotations

from dataclasses import dataclass

from pa_engine import Engine, Event, GeneratorParams, Request
from pa_engine.core import EngineCore
from pa_engine.testing import FakeExecutor, FakeStep
from pa_spec import EngineConfig, SchedulerPolicy, StepObserver

NUM_BLOCKS = 12
CONFIG = EngineConfig(num_blocks=NUM_BLOCKS, max_batch_size=3, max_scheduled_tokens=32)


@dataclass(frozen=True)
class BusyEngine:
    """An engine with one request in each place: two decode, one is done, one waits, one idles.

    Every run so far had its events taken, and nothing is in flight.
    """

    engine: Engine[FakeStep]
    decoding: Request
    other: Request
    done: Request
    waiting: Request
    idle: Request

    @property
    def core(self) -> EngineCore:
        """The engine's state, to be looked at and corrupted."""
        return self.engine._core

    def row(self, request: Request) -> int:
        """Return the row that a request lives in."""
        return self.core.registry.records[request.id].resident


def fake_engine(
    config: EngineConfig = CONFIG,
    *,
    executor: FakeExecutor | None = None,
    policy: SchedulerPolicy | None = None,
    observer: StepObserver | None = None,
) -> Engine[FakeStep]:
    """Return an engine that answers without a model."""
    return Engine(
        executor or FakeExecutor(num_blocks=NUM_BLOCKS), config, policy=policy, observer=observer
    )


def busy_engine(
    *, policy: SchedulerPolicy | None = None, observer: StepObserver | None = None
) -> BusyEngine:
    """Return an engine in the middle of its work."""
    engine = fake_engine(policy=policy, observer=observer)
    requests = [
        engine.create_request(GeneratorParams(max_generated_tokens=limit, seed=7))
        for limit in (9, 9, 1, 4, 4)
    ]
    decoding, other, done, waiting, idle = requests
    for request, prompt in ((decoding, [1, 2, 3]), (other, [4, 5]), (done, [6, 7, 8])):
        request.begin_turn(prompt)
    engine.run()
    engine.run()
    waiting.begin_turn([9, 9, 9])
    return BusyEngine(engine, decoding, other, done, waiting, idle)


def run_to_end(engine: Engine[FakeStep], calls: int = 200) -> list[Event]:
    """Call `run` until nothing is left to do; return every event."""
    events: list[Event] = []
    for _ in range(calls):
        if not engine.has_pending_requests():
            return events
        events += engine.run()
    message = f"no end after {calls} calls: {engine!r}"
    raise AssertionError(message)


def tokens_of(events: list[Event], request: Request) -> list[int]:
    """Return the tokens that a request was given, in order."""
    return [event.token for event in events if event.request is request and event.token >= 0]
