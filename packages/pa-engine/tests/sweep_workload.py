"""A small, deterministic workload in which everything that a step can do happens at least once.

Everything the caller does depends on the events it received, never on the number of calls, so
that a run with faults does the same things as one without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pa_engine import Engine, EventBatch, GeneratorParams, Request, TurnOptions
from pa_engine.testing import FakeExecutor, FakeStep
from pa_spec import (
    EngineConfig,
    ErrorCode,
    EventFlags,
    FinishReason,
    ModelExecutor,
    StepObserver,
)

NUM_BLOCKS = 7
CONFIG = EngineConfig(
    block_size=16, num_blocks=NUM_BLOCKS, max_batch_size=3, max_scheduled_tokens=12, chunk_size=7
)
STEP_CODES = (ErrorCode.RETRYABLE_EXECUTION, ErrorCode.EXECUTION_CAPACITY_EXCEEDED)
MAX_CALLS = 400


@dataclass(frozen=True)
class Script:
    """One request: its prompts and limits by turn, and the token count at which it is cancelled."""

    turns: tuple[tuple[int, int], ...]
    cancel_at: int = 0
    sampled: bool = False


SCRIPTS = (
    Script(turns=((20, 14), (5, 6)), sampled=True),
    Script(turns=((9, 30),)),
    Script(turns=((40, 4),)),
    Script(turns=((5, 20), (3, 2)), cancel_at=3),
    Script(turns=((17, 16),)),
)


@dataclass
class Progress:
    """What one request got so far."""

    script: Script
    request: Request
    turn: int = 0
    received: int = 0


@dataclass
class Workload:
    """Runs the scripts on one engine, a call of `run` at a time.

    counts: fill `seen`, which costs a look at every row around every call. log: every delivered
    event but those that report a failed step, as (name, token, reason, turn). seen: how often
    each kind of thing happened.
    """

    executor: ModelExecutor[FakeStep]
    observer: StepObserver | None = None
    counts: bool = False
    log: list[tuple[int, int, str, int]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.engine = Engine(self.executor, CONFIG, observer=self.observer)
        self.progress: dict[int, Progress] = {}
        for script in SCRIPTS:
            params = GeneratorParams(seed=11, do_sample=script.sampled, temperature=0.7)
            request = self.engine.create_request(params)
            self.progress[request.id] = Progress(script, request)
            self._begin(self.progress[request.id])

    def _begin(self, progress: Progress) -> None:
        prompt, limit = progress.script.turns[progress.turn]
        start = 3 * progress.request.id + 11 * progress.turn
        tokens = [(start + i) % 97 for i in range(prompt)]
        progress.request.begin_turn(tokens, TurnOptions(max_generated_tokens=limit))
        progress.received = 0

    def call(self) -> EventBatch:
        """Call `run` once and react to its events as a caller would."""
        before = self._blocks() if self.counts else {}
        deferred = self.engine.statistics().deferred_rows
        batch = self.engine.run()
        if self.counts:
            self._count(before, deferred, batch)
        for event in batch:
            if event.error_code in STEP_CODES:
                continue
            name = -1 if event.request is None else event.request.id
            self.log.append((name, event.token, event.finish_reason.name, event.turn_id))
            if event.request is not None:
                self._react(self.progress[event.request.id], event.flags, event.finish_reason)
        return batch

    def _react(self, progress: Progress, flags: EventFlags, reason: FinishReason) -> None:
        if flags & EventFlags.FAILED:
            return
        progress.received += bool(flags & EventFlags.TOKEN)
        if flags & EventFlags.TURN_FINISHED:
            self.seen["cancel" if reason is FinishReason.CANCELLED else "finish"] += 1
            progress.turn += 1
            if progress.turn < len(progress.script.turns):
                self.seen["continuation"] += 1
                self._begin(progress)
            else:
                progress.request.close()
        elif progress.script.cancel_at == progress.received and progress.turn == 0:
            turn = progress.request.turn
            assert turn is not None
            assert progress.request.cancel_turn(turn.turn_id)

    def _blocks(self) -> dict[int, tuple[int, int]]:
        rows = {}
        for _, row in self.engine.snapshot().rows:
            columns = dict(row.columns)
            rows[columns["request"]] = (columns["committed_tokens"], columns["prompt_tokens"])
        return rows

    def _count(self, before: dict[int, tuple[int, int]], deferred: int, batch: EventBatch) -> None:
        after = self._blocks()
        self.seen["deferral"] += self.engine.statistics().deferred_rows > deferred
        for request, (committed, prompt) in after.items():
            was, _ = before.get(request, (0, 0))
            self.seen["admission"] += request not in before
            self.seen["chunked prefill"] += was < committed < prompt
            decoded = was >= prompt and committed > was
            self.seen["block crossing"] += decoded and was % 16 == 0
        self.seen["decode"] += len(batch)

    def run_to_end(self) -> None:
        """Call `run` until nothing is left to do."""
        for _ in range(MAX_CALLS):
            if not self.engine.has_pending_requests():
                return
            self.call()
        message = f"no end after {MAX_CALLS} calls: {self.engine!r}"
        raise AssertionError(message)


def fake_executor() -> FakeExecutor:
    """Return the executor of the workload."""
    return FakeExecutor(num_blocks=NUM_BLOCKS)
