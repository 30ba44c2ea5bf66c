"""The workload of the composition tests: conversations on one engine, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pa_engine import Engine, Request, TurnOptions
from pa_spec import EngineConfig, EventFlags, FinishReason

HandleT = TypeVar("HandleT")

NUM_BLOCKS = 24
CONFIG = EngineConfig(
    num_blocks=NUM_BLOCKS, max_batch_size=3, max_scheduled_tokens=20, chunk_size=9
)
MAX_CALLS = 400


@dataclass(frozen=True)
class Dialogue:
    """The turns of one request: input ids and the tokens that may follow."""

    turns: tuple[tuple[tuple[int, ...], int], ...]


DIALOGUES = (
    Dialogue(((tuple(range(1, 31)), 9), ((5, 6), 7))),
    Dialogue((((40, 41, 42), 20),)),
    Dialogue(((tuple(range(50, 70)), 3), ((1,), 16), ((2, 3), 2))),
    Dialogue((((7,), 12),)),
    Dialogue(((tuple(range(3, 40)), 4),)),
)


def converse(
    engine: Engine[HandleT], dialogues: Sequence[Dialogue] = DIALOGUES
) -> tuple[list[list[int]], list[int]]:
    """Hold every dialogue to its end; return all sequences, and who got tokens in which order."""
    requests = [engine.create_request() for _ in dialogues]
    names = {request.id: name for name, request in enumerate(requests)}
    left = [list(dialogue.turns) for dialogue in dialogues]
    sequences: list[list[int]] = [[] for _ in dialogues]
    order: list[int] = []

    def begin(name: int, request: Request) -> None:
        tokens, limit = left[name].pop(0)
        request.begin_turn(tokens, TurnOptions(max_generated_tokens=limit))

    for name, request in enumerate(requests):
        begin(name, request)
    for _ in range(MAX_CALLS):
        if not engine.has_pending_requests():
            return sequences, order
        for event in engine.run():
            if event.request is None:
                continue
            name = names[event.request.id]
            order += [name] if event.flags & EventFlags.TOKEN else []
            if not event.flags & EventFlags.TURN_FINISHED:
                continue
            assert event.finish_reason is FinishReason.MAX_GENERATED_TOKENS
            if left[name]:
                begin(name, event.request)
            else:
                sequences[name] = event.request.tokens.tolist()
                event.request.close()
    message = f"no end after {MAX_CALLS} calls: {engine!r}"
    raise AssertionError(message)


def expected_sequences(
    follow: Callable[[list[int]], int], dialogues: Sequence[Dialogue] = DIALOGUES
) -> list[list[int]]:
    """Return the sequences of all dialogues when `follow` tells the next token."""
    sequences = []
    for dialogue in dialogues:
        sequence: list[int] = []
        for tokens, limit in dialogue.turns:
            sequence += tokens
            for _ in range(limit):
                sequence.append(follow(sequence))
        sequences.append(sequence)
    return sequences
