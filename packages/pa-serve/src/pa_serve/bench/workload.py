"""An engine full of requests and no model: what `pa bench host` runs step by step."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import final

import numpy as np
from pa_engine import Engine, EngineStatistics, EventBatch, GeneratorParams, NullExecutor, Request
from pa_spec import EngineConfig, EventFlags, Phase, StepId

CASES = ("decode", "mixed", "churn")

VOCAB_SIZE = 32_000

_BLOCK_SIZE = 16

_CHUNK_TOKENS = 16
"""Prompt tokens of a prefilling row in one step of the mixed case."""

_ROWS_PER_PREFILL = 8
"""One row in so many prefills, in the mixed case."""

_CHURN_PROMPT_TOKENS = 32

_CHURN_LIFETIME = 64
"""Tokens that a request of the churn case lives for: rows / 64 of them end in each step."""

_PREFILL_TOKENS = 8192
"""Token budget of a step while the contexts are built up, and more where decoding needs more."""

_SPARE_STEPS = 64
"""Steps to settle, to count calls over a whole block, and to be on the safe side."""


@dataclass(frozen=True, slots=True)
class HostCase:
    """One thing to measure.

    name: one of CASES. rows: requests in every step. context: prompt tokens of a decoding row.
    steps: measured in one round. In mixed one row in eight prefills, 16 tokens a step; in churn
    prompts have 32 tokens, at least one request ends in each step, and its successor begins.
    """

    name: str
    rows: int
    context: int
    steps: int

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a decoding row's prompt."""
        return _CHURN_PROMPT_TOKENS if self.name == "churn" else self.context

    @property
    def num_prefilling(self) -> int:
        """Rows that prefill in every step."""
        return max(1, self.rows // _ROWS_PER_PREFILL) if self.name == "mixed" else 0

    @property
    def lifetime(self) -> int:
        """Tokens after which a request of the churn case ends."""
        return min(_CHURN_LIFETIME, self.rows)

    @property
    def budget(self) -> int:
        """Packed tokens of a step at most: every row may always do its part."""
        return max(_PREFILL_TOKENS, self.rows * _CHUNK_TOKENS)

    @property
    def total_steps(self) -> int:
        """Steps that a request lives for at most: building up, settling, measuring."""
        per_row = _CHUNK_TOKENS if self.name == "mixed" else self.budget // self.rows
        build_up = -(-self.prompt_tokens // per_row)
        return build_up + self.steps + 2 * _SPARE_STEPS

    @property
    def decoded_sequence(self) -> int:
        """Tokens that a decoding row's sequence can come to."""
        return self.prompt_tokens + self.total_steps

    @property
    def prefilled_sequence(self) -> int:
        """Tokens of a prefilling row's prompt, which lasts for the whole case."""
        return self.total_steps * _CHUNK_TOKENS if self.num_prefilling else 0

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence that the case can come to."""
        return max(self.decoded_sequence, self.prefilled_sequence + self.total_steps)

    @property
    def num_blocks(self) -> int:
        """Blocks with which nothing ever waits."""
        decoding = self.decoded_sequence // _BLOCK_SIZE + 1
        prefilling = self.prefilled_sequence // _BLOCK_SIZE + 1
        num_prefilling = self.num_prefilling
        return (self.rows - num_prefilling) * decoding + num_prefilling * prefilling


@final
class PhaseCounter:
    """An observer that costs what an observer must: one call a phase."""

    def __init__(self) -> None:
        self.num_phases = 0

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Count the phase."""
        del phase, step_id
        self.num_phases += 1


@final
class Workload:
    """The requests of one case on a fresh engine, settled: every row is in every step.

    Life: construct, then `timed_step` and the other measurements as often as case.steps allows,
    then `close`.
    """

    def __init__(self, case: HostCase) -> None:
        self._case = case
        self._requests: dict[int, Request] = {}
        config = EngineConfig(
            block_size=_BLOCK_SIZE,
            num_blocks=case.num_blocks,
            max_batch_size=case.rows,
            max_scheduled_tokens=case.budget,
            chunk_size=_CHUNK_TOKENS if case.name == "mixed" else 0,
        )
        executor = NullExecutor(vocab_size=VOCAB_SIZE, context_length=case.longest_sequence + 1)
        self._engine = Engine(executor, config, observer=PhaseCounter())
        self._buffer = self._engine.create_event_buffer(2 * case.rows)
        self._settle()

    @property
    def statistics(self) -> EngineStatistics:
        """Counts of the engine so far."""
        return self._engine.statistics()

    def timed_step(self) -> int:
        """Run a step, read its events as columns, follow up on ended turns; nanoseconds."""
        start = time.perf_counter_ns()
        self._step()
        return time.perf_counter_ns() - start

    def timed_objects(self) -> int:
        """Run a step and build every event of it as an object; nanoseconds of the building."""
        batch = self._step()
        start = time.perf_counter_ns()
        for event in batch:
            del event
        return time.perf_counter_ns() - start

    def counted_calls(self) -> int:
        """Run a step and return how many Python and C functions were called in it."""
        engine, buffer, num_calls = self._engine, self._buffer, 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            del frame, argument
            nonlocal num_calls
            num_calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            engine.run(buffer)
        finally:
            sys.setprofile(None)
        return num_calls - 1  # the last one counted is setprofile itself

    def close(self) -> None:
        """Give everything back."""
        self._engine.close()

    def _settle(self) -> None:
        case = self._case
        is_churn = case.name == "churn"
        for row in range(case.rows):
            if row < case.num_prefilling:
                self._begin(case.prefilled_sequence, case.total_steps)
            else:
                lifetime = 1 + row % case.lifetime if is_churn else case.total_steps
                self._begin(case.prompt_tokens, lifetime)
        if is_churn:
            for _ in range(_SPARE_STEPS):
                self._step()
            return
        decoding: set[int] = set()
        while len(decoding) < case.rows - case.num_prefilling:
            decoding.update(self._step().requests.tolist())
        for _ in range(_SPARE_STEPS // 2):
            self._step()

    def _step(self) -> EventBatch:
        batch = self._engine.run(self._buffer)
        ended = batch.requests[(batch.flags & EventFlags.TURN_FINISHED) != 0]
        for request_id in ended.tolist():
            self._requests.pop(request_id).close()
            self._begin(self._case.prompt_tokens, self._case.lifetime)
        return batch

    def _begin(self, prompt_tokens: int, generated_tokens: int) -> None:
        params = GeneratorParams(max_generated_tokens=generated_tokens, ignore_eos=True)
        request = self._engine.create_request(params)
        request.begin_turn(np.full(prompt_tokens, 7, np.int32))
        self._requests[request.id] = request
