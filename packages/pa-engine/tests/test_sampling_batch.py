"""How a step's rows sample: bans, histories and random streams, from committed state alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from engine_cases import NUM_BLOCKS
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import Engine, GeneratorParams, TurnOptions
from pa_engine.residents import ResidentTable, TurnStart
from pa_engine.step.sampling import repeated_continuations, sampling_batch
from pa_engine.testing import FailingExecutor, FakeExecutor, FakeStep, FaultyCall
from pa_spec import (
    BoolArray,
    DecoderState,
    EngineConfig,
    EventFlags,
    IndexArray,
    Int32Array,
    RequestId,
    SampledTokens,
    SamplingBatch,
    StepAborted,
    StepLimits,
    StepWork,
)

SAMPLED = GeneratorParams(do_sample=True, temperature=0.5, top_k=7, top_p=0.25, seed=3)


def _table(*turns: tuple[GeneratorParams, list[int], tuple[int, ...]]) -> ResidentTable:
    """Return a table with a row for each turn: its params, sequence and end ids."""
    table = ResidentTable(len(turns))
    table.ensure_eos(max(1, *(len(eos) for _, _, eos in turns)))
    for row, (params, tokens, eos) in enumerate(turns):
        start = TurnStart(
            turn_id=1,
            params=params,
            seed=params.seed or 0,
            eos=eos,
            prompt_tokens=len(tokens),
            sequence_tokens=len(tokens),
            session_limit=100,
        )
        table.stage(row, RequestId(row), np.array(tokens, np.int32), start)
    return table


def _rows(*rows: int) -> IndexArray:
    return np.array(rows, np.intp)


def _pairs(row: Int32Array | None, token: Int32Array | None) -> list[tuple[int, int]]:
    if row is None or token is None:
        assert row is None
        assert token is None
        return []
    return list(zip(row.tolist(), token.tolist(), strict=True))


@pytest.mark.spec("E73")
def test_plain_greedy_rows_need_nothing() -> None:
    table = _table((GeneratorParams(), [1, 2], (9,)), (GeneratorParams(top_k=4), [3], ()))

    assert sampling_batch(table, _rows(0, 1)) == SamplingBatch()


@pytest.mark.spec("E73")
def test_greedy_and_sampled_rows_mix_each_with_its_own_values() -> None:
    table = _table(
        (GeneratorParams(), [1, 2], ()),
        (SAMPLED, [3], ()),
        (GeneratorParams(do_sample=True, temperature=0, top_p=0.9), [3], ()),
    )

    batch = sampling_batch(table, _rows(1, 2, 0))

    assert batch.temperature is not None
    assert batch.temperature.tolist() == [0.5, 0.0, 0.0]
    assert batch.top_k is not None
    assert batch.top_k.tolist() == [7, 0, 0]
    assert batch.top_p is not None
    assert batch.top_p.tolist() == pytest.approx([0.25, 0.9, 1.0])
    assert batch.uniform is not None
    assert ((batch.uniform >= 0) & (batch.uniform < 1)).all()
    assert (batch.penalty, batch.banned_row) == (None, None)


def test_too_few_tokens_ban_every_end_id_of_the_row_and_of_no_other() -> None:
    params = GeneratorParams(min_generated_tokens=2)
    table = _table((GeneratorParams(), [1], (8,)), (params, [1], (5, 6, 7)), (params, [1], (9,)))

    for generated, expected in (
        (0, [(0, 5), (0, 6), (0, 7), (2, 9)]),
        (1, [(0, 5), (0, 6), (0, 7), (2, 9)]),
        (2, [(2, 9)]),
    ):
        table.columns.turn_generated[1] = generated
        batch = sampling_batch(table, _rows(1, 0, 2))
        assert _pairs(batch.banned_row, batch.banned_token) == expected
        assert batch.temperature is None


def test_a_penalty_applies_to_every_token_of_prompt_and_output() -> None:
    table = _table(
        (GeneratorParams(), [9, 9], ()),
        (GeneratorParams(repetition_penalty=1.5), [4, 5, 4], ()),
        (GeneratorParams(repetition_penalty=0.5), [6], ()),
    )
    table.tokens[1, 3] = 7
    table.columns.sequence_tokens[1] = 4

    batch = sampling_batch(table, _rows(1, 0, 2))

    assert batch.penalty is not None
    assert batch.penalty.tolist() == [1.5, 1.0, 0.5]
    pairs = _pairs(batch.penalized_row, batch.penalized_token)
    assert pairs == [(0, 4), (0, 5), (0, 4), (0, 7), (2, 6)]


def _naive_continuations(sequence: list[int], size: int) -> list[int]:
    prefix = sequence[len(sequence) - size + 1 :]
    return [
        sequence[start + size - 1]
        for start in range(len(sequence) - size + 1)
        if sequence[start : start + size - 1] == prefix
    ]


@given(st.lists(st.integers(0, 3), max_size=24), st.integers(1, 6))
def test_tokens_that_would_repeat_an_ngram_are_those_of_a_naive_search(
    sequence: list[int], size: int
) -> None:
    found = repeated_continuations(np.array(sequence, np.int32), size)

    assert found.tolist() == _naive_continuations(sequence, size)
    for token in found.tolist():
        grams = [tuple((*sequence, token)[i : i + size]) for i in range(len(sequence) - size + 2)]
        assert grams.count(grams[-1]) > 1


def test_rows_with_and_without_an_ngram_size_keep_their_own_bans() -> None:
    table = _table(
        (GeneratorParams(no_repeat_ngram_size=2), [1, 2, 1], ()),
        (GeneratorParams(), [1, 2, 1], ()),
        (GeneratorParams(no_repeat_ngram_size=3, min_generated_tokens=1), [3, 4, 5, 3, 4], (2,)),
    )

    batch = sampling_batch(table, _rows(0, 1, 2))

    assert sorted(_pairs(batch.banned_row, batch.banned_token)) == [(0, 2), (2, 2), (2, 5)]


def _uniform(batch: SamplingBatch) -> list[float]:
    assert batch.uniform is not None
    values: list[float] = batch.uniform.tolist()
    return values


@pytest.mark.spec("E73", "E84")
def test_a_stream_is_a_function_of_seed_sample_and_draws_and_of_nothing_else() -> None:
    table = _table(
        (SAMPLED, [1], ()),
        (GeneratorParams(do_sample=True, seed=3, sample_index=1), [1], ()),
        (GeneratorParams(do_sample=True, seed=4), [1], ()),
        (GeneratorParams(do_sample=True, seed=3, temperature=9.0), [5, 6], ()),
    )
    together = _uniform(sampling_batch(table, _rows(0, 1, 2, 3)))

    assert together[0] == together[3]
    assert len(set(together)) == 3
    assert _uniform(sampling_batch(table, _rows(2, 0))) == [together[2], together[0]]

    draws = []
    for draw in range(20):
        table.columns.draws[0] = draw
        draws += _uniform(sampling_batch(table, _rows(0)))
    assert draws[0] == together[0]
    assert len(set(draws)) == 20


@dataclass
class Listening:
    """A fake executor that keeps what it was told of sampling."""

    inner: FakeExecutor = field(default_factory=lambda: FakeExecutor(num_blocks=NUM_BLOCKS))
    heard: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.manifest, self.config = self.inner.manifest, self.inner.config

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        self.inner.bind(state, limits, columns)

    def launch(self, work: StepWork) -> FakeStep:
        self.heard.append(_uniform(work.sampling))
        return self.inner.launch(work)

    def collect(self, handle: FakeStep, live: BoolArray | None) -> SampledTokens:
        return self.inner.collect(handle, live)

    def discard(self, handle: FakeStep) -> None:
        self.inner.discard(handle)


def _heard(fault: FaultyCall | None = None, *options: TurnOptions) -> list[list[float]]:
    """Return the uniforms of each launch of one request's turns, of three tokens each."""
    listening = Listening()
    executor = listening if fault is None else FailingExecutor(listening, fault)
    engine = Engine(executor, EngineConfig(num_blocks=NUM_BLOCKS))
    request = engine.create_request(SAMPLED)
    flags = EventFlags.NONE
    for each in options or (TurnOptions(),):
        request.begin_turn([1, 2], TurnOptions(max_generated_tokens=3, seed=each.seed))
        while engine.has_pending_requests():
            for event in engine.run():
                flags |= event.flags
    assert bool(flags & EventFlags.RETRYABLE) is (fault is not None)
    return listening.heard


@pytest.mark.parametrize("call", ["launch", "collect"])
@pytest.mark.spec("E84")
def test_a_stream_repeats_its_number_after_an_abort(call: str) -> None:
    untouched = _heard()
    faulty = _heard(FaultyCall(call, 2, StepAborted("once")))

    assert len(untouched) == 3
    assert faulty == [untouched[0], untouched[1], untouched[1], untouched[2]]


@pytest.mark.spec("E132")
def test_a_seed_for_one_turn_is_used_in_that_turn_alone() -> None:
    plain = _heard(None, TurnOptions(), TurnOptions(), TurnOptions())
    seeded = _heard(None, TurnOptions(), TurnOptions(seed=99), TurnOptions())

    assert [seeded[:3], seeded[6:]] == [plain[:3], plain[6:]]
    assert all(ours != theirs for ours, theirs in zip(seeded[3:6], plain[3:6], strict=True))
    assert all(before != after for before, after in pairwise(seeded))
