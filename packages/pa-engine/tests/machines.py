"""The engine beside a naive model of it: what a caller may do, in any order."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pa_engine import Engine, Event, GeneratorParams, Request, TurnOptions
from pa_engine.testing import FakeExecutor, expected_tokens
from pa_spec import EngineConfig, ErrorCode, EventFlags, FinishReason, InputUnusable

VOCABULARY = 23
EOS = (5, 17)
SESSION = 120
NUM_BLOCKS = 6


@dataclass
class Model:
    """What the caller knows of one request."""

    request: Request | None
    sequence: list[int] = field(default_factory=list)
    turn: int = 0
    running: bool = False
    expected: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    limit: int = 0
    cancelled: bool = False


class EngineMachine(RuleBasedStateMachine):
    """Create, begin, run with any capacity, cancel, close and drop over a small pool."""

    reserve_turn_limit = False

    def __init__(self) -> None:
        super().__init__()
        executor = FakeExecutor(
            num_blocks=NUM_BLOCKS, vocab_size=VOCABULARY, context_length=SESSION, eos_token_ids=EOS
        )
        config = EngineConfig(
            block_size=16,
            num_blocks=NUM_BLOCKS,
            max_batch_size=3,
            max_scheduled_tokens=11,
            chunk_size=5,
            reserve_turn_limit=self.reserve_turn_limit,
        )
        self.engine = Engine(executor, config)
        self.models: dict[int, Model] = {}

    def _open(self) -> list[Model]:
        return [model for model in self.models.values() if model.request is not None]

    @rule()
    def create(self) -> None:
        request = self.engine.create_request(GeneratorParams())
        assert request.id not in self.models
        self.models[request.id] = Model(request)

    @precondition(lambda self: self._open())
    @rule(data=st.data(), size=st.integers(1, 70), limit=st.integers(0, 30))
    def begin(self, data: st.DataObject, size: int, limit: int) -> None:
        model = data.draw(st.sampled_from(self._open()))
        assert model.request is not None
        if model.running or self.engine._core.queue.concerns(model.request.id):
            return
        prompt = [(size * 7 + i * 3 + model.turn) % VOCABULARY for i in range(size)]
        total = len(model.sequence) + size
        options = TurnOptions(max_generated_tokens=limit)
        if total >= SESSION:
            before = self.engine.snapshot()
            try:
                model.request.begin_turn(prompt, options)
            except InputUnusable:
                assert self.engine.snapshot() == before
                return
            raise AssertionError(total)
        model.turn += 1
        assert model.request.begin_turn(prompt, options) == model.turn
        model.sequence += prompt
        room = min(limit or SESSION, SESSION - total)
        model.limit = room
        model.expected = expected_tokens(model.sequence, room, VOCABULARY, EOS)
        model.received, model.running, model.cancelled = [], True, False

    @rule(capacity=st.integers(0, 4))
    def run(self, capacity: int) -> None:
        work = self.engine.has_pending_requests()
        before = self.engine.snapshot()
        events = list(self.engine.run(max_events=capacity))
        assert len(events) <= capacity
        for event in events:
            self._take(event)
        if capacity and work:
            # No hang: an executing call commits, reports, or drains what was retained.
            assert events or self.engine.snapshot() != before
        if not work:
            assert not events

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self._open()))
        assert model.request is not None
        if not model.turn:
            return
        ended = model.request.cancel_turn(model.turn)
        assert not model.request.cancel_turn(model.turn)
        if ended:
            assert model.running
            model.cancelled = True

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self._open()))
        assert model.request is not None
        model.request.close()
        model.request.close()
        model.request, model.running = None, False

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self._open()))
        model.request, model.running = None, False
        gc.collect(0)
        self.engine.has_pending_requests()

    @invariant()
    def everything_is_accounted_for(self) -> None:
        assert self.engine.check_all() == ()

    def _take(self, event: Event) -> None:
        if event.request is None:
            assert event.flags == EventFlags.CAPACITY_BLOCKED
            assert event.error_code is ErrorCode.CAPACITY_DEFERRED
            return
        model = self.models[event.request.id]
        assert event.request is model.request
        assert event.turn_id == model.turn
        assert model.running
        if event.flags & EventFlags.TOKEN:
            model.received.append(event.token)
            model.sequence.append(event.token)
            assert model.received == model.expected[: len(model.received)]
        if event.flags & EventFlags.TURN_FINISHED:
            model.running = False
            self._finish(model, event)

    def _finish(self, model: Model, event: Event) -> None:
        assert event.usage.generated_tokens == len(model.received)
        match event.finish_reason:
            case FinishReason.EOS:
                assert model.received == model.expected
                assert len(model.expected) < model.limit
            case FinishReason.MAX_GENERATED_TOKENS | FinishReason.MAX_SESSION_TOKENS:
                assert len(model.received) == model.limit
            case FinishReason.CANCELLED:
                assert model.cancelled
            case FinishReason.FAILED:
                assert event.error_code is ErrorCode.REQUEST_UNSERVICEABLE
                assert self._never_fits(model)
            case reason:
                raise AssertionError(reason)

    def _never_fits(self, model: Model) -> bool:
        needed = len(model.sequence)
        if self.reserve_turn_limit:
            needed += model.limit - 1
        return needed > NUM_BLOCKS * 16

    def teardown(self) -> None:
        """Close what is left: everything comes back."""
        self.engine.close()
        assert self.engine._core.cache.usage.free == NUM_BLOCKS


class PromisingEngineMachine(EngineMachine):
    """The same with reserved turn limits: nothing that runs ever waits for growth."""

    reserve_turn_limit = True
