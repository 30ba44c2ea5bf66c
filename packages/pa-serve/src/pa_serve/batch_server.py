"""Serves any number of prompts together, by continuous batching, on one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np
from pa_engine import EngineStatistics, Event, EventBatch, GeneratorParams, Request
from pa_spec import EngineFailed, ErrorCode, EventFlags, FinishReason, PagedAttentionError

from pa_serve.prompt_line import Given, PromptLine
from pa_serve.result import Result
from pa_serve.sampling import Sampling

FINISH_WORDS = {
    FinishReason.EOS: "eos",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.MAX_GENERATED_TOKENS: "length",
    FinishReason.MAX_SESSION_TOKENS: "session_length",
    FinishReason.CANCELLED: "cancelled",
    FinishReason.FAILED: "failed",
}

_MAX_FRUITLESS_RUNS = 8
"""Steps in a row that may end without progress before their prompts are given up."""


class Codec(Protocol):
    """Turns what a user gave into tokens, and tokens into text."""

    def encode(self, given: Given) -> Sequence[int]:
        """Return the token ids of a prompt or of chat messages; raises InputUnusable."""

    def decode(self, prompt: Sequence[int], generated: Sequence[int]) -> str:
        """Return the text that the generated tokens add to the prompt's."""


class PromptEngine(Protocol):
    """What is used of an `Engine`, whatever its executor."""

    def create_request(self, params: GeneratorParams) -> Request:
        """Make a request."""

    def run(self, *, max_events: int) -> EventBatch:
        """Run a step and return its events."""

    def has_pending_requests(self) -> bool:
        """Whether more will come."""

    def statistics(self) -> EngineStatistics:
        """Return counts so far."""


@dataclass(slots=True)
class _Running:
    """A prompt that the engine works on, and its tokens so far."""

    line: PromptLine
    request: Request
    prompt: Sequence[int]
    token_limit: int
    token_ids: list[int] = field(default_factory=list)


@final
class BatchServer:
    """Submits prompts as the engine has room and yields each result as soon as it is there.

    At most max_submitted prompts are in the engine at once, so that an input of any length needs
    memory for these only; each request is closed when its turn ends. on_tokens is told the number
    of tokens that each step gave.
    """

    def __init__(
        self,
        engine: PromptEngine,
        codec: Codec,
        defaults: Sampling,
        max_submitted: int,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._codec = codec
        self._defaults = defaults
        self._max_submitted = max_submitted
        self._on_tokens = on_tokens
        self._running: dict[int, _Running] = {}
        self._num_fruitless = 0
        self._failure: EngineFailed | None = None

    @property
    def failure(self) -> EngineFailed | None:
        """What stopped the engine for good, None while it is usable."""
        return self._failure

    def serve(
        self, lines: Iterable[PromptLine], should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Result]:
        """Yield one result for each line, in the order in which they are done.

        should_stop is asked between steps. Ending early, in this way or by leaving the iterator,
        closes every request that is still running.
        """
        source = iter(lines)
        try:
            while not should_stop():
                yield from self._submit(source)
                if not self._running:
                    return
                yield from self._step()
        finally:
            self._close_all()

    def _submit(self, source: Iterator[PromptLine]) -> Iterator[Result]:
        """Begin turns until enough are in the engine; yield the results of unusable lines."""
        while len(self._running) < self._max_submitted:
            line = next(source, None)
            if line is None:
                return
            if line.error is not None:
                yield Result(line.index, line.place, line.given, line.error)
                continue
            try:
                self._begin(line)
            except EngineFailed as error:
                self._failure = error
                yield Result(line.index, line.place, line.given, f"the engine stopped: {error}")
            except PagedAttentionError as error:
                yield Result(line.index, line.place, line.given, str(error))

    def _begin(self, line: PromptLine) -> None:
        if line.given is None or self._failure is not None:
            raise self._failure or ValueError("a line has a prompt or an error")
        sampling = line.sampling.over(self._defaults)
        sampling.check_limits()
        tokens = self._codec.encode(line.given)
        # Lines that share the run's seed each have their own stream; a line's own seed is enough.
        sample_index = line.index if line.sampling.seed is None else 0
        params = generator_params(sampling, sample_index)
        request = self._engine.create_request(params)
        try:
            request.begin_turn(tokens)
        except PagedAttentionError:
            request.close()
            raise
        self._running[request.id] = _Running(line, request, tokens, sampling.token_limit)

    def _step(self) -> Iterator[Result]:
        try:
            batch = self._engine.run(max_events=2 * self._max_submitted)
        except EngineFailed as error:
            self._failure = error
            yield from self._give_up(f"the engine stopped: {error}")
            return
        yield from self._take(batch)
        if self._running and self._is_stuck(batch):
            yield from self._give_up(f"no progress in {_MAX_FRUITLESS_RUNS} steps ({batch!r})")

    def _take(self, batch: EventBatch) -> Iterator[Result]:
        """Add a step's tokens to their prompts; yield the results of turns that ended."""
        with_token = (batch.flags & EventFlags.TOKEN) != 0
        for request_id, token in zip(
            batch.requests[with_token].tolist(), batch.tokens[with_token].tolist(), strict=True
        ):
            self._running[request_id].token_ids.append(token)
        self._on_tokens(int(with_token.sum()))
        for place in np.flatnonzero(batch.flags & EventFlags.TURN_FINISHED).tolist():
            running = self._running.pop(int(batch.requests[place]))
            event = batch[place]
            yield self._finish(running, event)

    def _finish(self, running: _Running, event: Event) -> Result:
        running.request.close()
        line = running.line
        if event.flags & EventFlags.FAILED:
            return Result(line.index, line.place, line.given, self._reason(running, event))
        return Result(
            line.index,
            line.place,
            line.given,
            text=self._codec.decode(running.prompt, running.token_ids),
            token_ids=tuple(running.token_ids),
            finish_reason=FINISH_WORDS[event.finish_reason],
            prompt_tokens=event.usage.prompt_tokens,
            generated_tokens=event.usage.generated_tokens,
            cached_prompt_tokens=event.usage.cached_prompt_tokens,
        )

    def _reason(self, running: _Running, event: Event) -> str:
        if event.error_code is ErrorCode.REQUEST_UNSERVICEABLE:
            total = self._engine.statistics().total_blocks
            return (
                f"its {len(running.prompt)} tokens and up to {running.token_limit} new ones "
                f"can never fit; allowed: what {total} cache blocks hold; ask for fewer new "
                "tokens or give --num-blocks"
            )
        if event.error_code is ErrorCode.REQUEST_EXECUTION_FAILURE:
            return "the model gave no finite score for any token"
        self._learn_failure()
        return f"the engine stopped: {self._failure or event.error_code.name}"

    def _learn_failure(self) -> None:
        """Ask the engine for its stored error; a call without capacity does nothing else (E31)."""
        try:
            self._engine.run(max_events=0)
        except EngineFailed as error:
            self._failure = error

    def _is_stuck(self, batch: EventBatch) -> bool:
        """Whether too many steps in a row brought nothing and nothing will come of more."""
        if not len(batch) and not self._engine.has_pending_requests():
            return True
        fruitless = batch.flags & (EventFlags.CAPACITY_BLOCKED | EventFlags.RETRYABLE)
        self._num_fruitless = self._num_fruitless + 1 if fruitless.any() else 0
        return self._num_fruitless > _MAX_FRUITLESS_RUNS

    def _give_up(self, reason: str) -> Iterator[Result]:
        lines = [running.line for running in self._running.values()]
        self._close_all()
        self._num_fruitless = 0
        for line in lines:
            yield Result(line.index, line.place, line.given, reason)

    def _close_all(self) -> None:
        for running in self._running.values():
            running.request.close()
        self._running.clear()


def generator_params(sampling: Sampling, sample_index: int = 0) -> GeneratorParams:
    """Return the engine's parameters for these fields; raises ContractViolation."""
    temperature = sampling.effective_temperature
    return GeneratorParams(
        do_sample=temperature > 0,
        temperature=temperature,
        top_k=sampling.top_k or 0,
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        repetition_penalty=(
            1.0 if sampling.repetition_penalty is None else sampling.repetition_penalty
        ),
        no_repeat_ngram_size=sampling.no_repeat_ngram_size or 0,
        min_generated_tokens=sampling.min_new_tokens or 0,
        max_generated_tokens=sampling.token_limit,
        seed=sampling.seed,
        sample_index=sample_index,
        ignore_eos=sampling.ignore_eos or False,
    )
