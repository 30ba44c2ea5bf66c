"""A serving loop on an engine whose answers are known without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pa_engine import Engine, EngineStatistics, EventBatch, GeneratorParams, Request
from pa_engine.testing import FailingExecutor, FakeExecutor, FaultyCall, expected_tokens
from pa_serve.batch_server import BatchServer, PromptEngine
from pa_serve.prompt_line import Given, PromptLine
from pa_serve.result import Result
from pa_serve.sampling import Sampling
from pa_spec import EngineConfig, InputUnusable

VOCAB_SIZE = 200
CONTEXT_TOKENS = 256


class LetterCodec:
    """One token for each letter; "?" is text that no tokenizer takes."""

    def encode(self, given: Given) -> Sequence[int]:
        if given == "?":
            raise InputUnusable("prompt", "a question mark", "anything else")
        return [ord(letter) for letter in given if isinstance(letter, str)]

    def decode(self, prompt: Sequence[int], generated: Sequence[int]) -> str:
        return f"{len(prompt)}:" + " ".join(map(str, generated))


class WatchedEngine:
    """An engine that remembers with what its requests were created."""

    def __init__(self, engine: PromptEngine) -> None:
        self._engine = engine
        self.created: list[GeneratorParams] = []

    def create_request(self, params: GeneratorParams) -> Request:
        self.created.append(params)
        return self._engine.create_request(params)

    def run(self, *, max_events: int) -> EventBatch:
        return self._engine.run(max_events=max_events)

    def has_pending_requests(self) -> bool:
        return self._engine.has_pending_requests()

    def statistics(self) -> EngineStatistics:
        return self._engine.statistics()


@dataclass
class Kitchen:
    """An engine, the server on it, and what it said on the way."""

    engine: PromptEngine
    server: BatchServer
    steps: list[int] = field(default_factory=list)

    @property
    def statistics(self) -> EngineStatistics:
        return self.engine.statistics()


def fake_executor(num_blocks: int, eos: int = 0, faulty: int = 0) -> FakeExecutor:
    return FakeExecutor(
        num_blocks=num_blocks,
        vocab_size=VOCAB_SIZE,
        context_length=CONTEXT_TOKENS,
        eos_token_ids=(eos,) if eos else (),
        faulty_tokens=(faulty,) if faulty else (),
    )


def kitchen(
    config: EngineConfig,
    fault: FaultyCall | None = None,
    defaults: Sampling | None = None,
    executor: FakeExecutor | None = None,
) -> Kitchen:
    assert config.num_blocks is not None
    executor = executor or fake_executor(config.num_blocks)
    engine: PromptEngine = Engine(executor, config)
    if fault is not None:
        engine = Engine(FailingExecutor(executor, fault), config)
    steps: list[int] = []
    defaults = defaults or Sampling(max_new_tokens=8)
    server = BatchServer(engine, LetterCodec(), defaults, 2 * config.max_batch_size, steps.append)
    return Kitchen(engine, server, steps)


def config(num_blocks: int, **changes: int) -> EngineConfig:
    return EngineConfig(num_blocks=num_blocks, reserve_turn_limit=True, **changes)


def lines(*prompts: str) -> list[PromptLine]:
    return [PromptLine(index, f"line {index}", prompt) for index, prompt in enumerate(prompts)]


def answers(prompt: str, count: int) -> tuple[int, ...]:
    return tuple(expected_tokens([ord(letter) for letter in prompt], count, VOCAB_SIZE))


def served(prompt: str, count: int, result: Result) -> bool:
    return result.error is None and result.token_ids == answers(prompt, count)


def is_unused(cook: Kitchen) -> bool:
    """Whether no request is left and the engine can do nothing more."""
    return not cook.engine.has_pending_requests() and "requests=0," in repr(cook.engine)
