"""The executor for torch decoders, with a decoder whose answers are known without any engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pa_cache import CacheGeometry, PagedCacheManager
from pa_engine import Engine, Event, GeneratorParams, Request, TorchExecutor
from pa_engine.executors.torch_executor import LaunchedStep
from pa_spec import (
    DecoderState,
    EngineConfig,
    EngineFailed,
    ErrorCode,
    EventFlags,
    InputUnusable,
    Outcome,
    PagedLayer,
    StepAborted,
    StepLimits,
)
from step_plans import Row, step_work
from tiny_decoder import VOCABULARY, TinyDecoder, dense_tokens

PROMPTS = ([3], [5, 6, 7, 8, 9], list(range(1, 40)), [11] * 17)
COUNT = 20


def _engine(decoder: TinyDecoder, *, chunk: int = 0, scheduled: int = 64) -> Engine[LaunchedStep]:
    config = EngineConfig(
        num_blocks=16, max_batch_size=4, max_scheduled_tokens=scheduled, chunk_size=chunk
    )
    return Engine(TorchExecutor(decoder), config)


def _begin(
    engine: Engine[LaunchedStep], prompt: list[int], params: GeneratorParams | None = None
) -> Request:
    request = engine.create_request(params or GeneratorParams(max_generated_tokens=COUNT))
    request.begin_turn(prompt)
    return request


def _finish(engine: Engine[LaunchedStep]) -> list[Event]:
    events: list[Event] = []
    while engine.has_pending_requests():
        events += engine.run()
        assert len(events) < 500
    return events


@pytest.mark.parametrize(
    ("chunk", "scheduled", "chosen_rows", "positions"),
    [(0, 64, True, False), (1, 64, False, True), (7, 9, True, True), (0, 5, False, False)],
)
@pytest.mark.spec("E62", "E68", "E71", "E72")
def test_any_batching_gives_the_tokens_of_a_dense_computation(
    chunk: int, scheduled: int, *, chosen_rows: bool, positions: bool
) -> None:
    decoder = TinyDecoder(chosen_rows=chosen_rows, positions=positions)
    engine = _engine(decoder, chunk=chunk, scheduled=scheduled)
    requests = [_begin(engine, prompt) for prompt in PROMPTS]

    _finish(engine)

    for request, prompt in zip(requests, PROMPTS, strict=True):
        assert request.tokens.tolist() == prompt + dense_tokens(prompt, COUNT)
    assert engine.check_all() == ()


@pytest.mark.spec("E71")
def test_a_step_runs_the_model_once_and_asks_for_the_rows_that_sample() -> None:
    decoder = TinyDecoder()
    engine = _engine(decoder, chunk=16)
    kept = [_begin(engine, PROMPTS[0]), _begin(engine, PROMPTS[2])]

    engine.run()
    engine.run()

    assert len(decoder.seen) == engine.statistics().steps == len(kept)
    assert [step.logits_rows.tolist() for step in decoder.seen] == [[0], [0]]
    assert [step.cumulative_sequence_length.tolist() for step in decoder.seen] == [[0, 1, 17]] * 2


@pytest.mark.spec("E68")
def test_positions_continue_from_the_committed_length_and_are_given_on_request_only() -> None:
    decoder = TinyDecoder(positions=True)
    engine = _engine(decoder, chunk=3)
    kept = [_begin(engine, PROMPTS[1])]
    for _ in range(3):
        engine.run()
    kept.append(_begin(engine, PROMPTS[0]))
    engine.run()

    given = [None if step.positions is None else step.positions for step in decoder.seen]
    assert [each.tolist() for each in given if each is not None] == [
        [0, 1, 2],
        [3, 4],
        [5],
        [6, 0],
    ]
    assert {each.dtype for each in given if each is not None} == {torch.int32}

    plain = TinyDecoder()
    engine = _engine(plain)
    kept.append(_begin(engine, PROMPTS[1]))
    engine.run()
    assert plain.seen[0].positions is None


@pytest.mark.spec("E69")
def test_metadata_tells_the_longest_row_and_the_longest_target_on_the_host() -> None:
    decoder = TinyDecoder()
    engine = _engine(decoder)
    kept = [_begin(engine, PROMPTS[1])]
    engine.run()
    kept.append(_begin(engine, PROMPTS[0]))
    engine.run()

    assert len(kept) == len(decoder.seen)
    assert [step.attention_metadata.tolist() for step in decoder.seen] == [[5, 5, 5], [1, 6, 6]]


def _out_of_memory_on_the_cpu() -> RuntimeError:
    """Return what torch really raises when the CPU's memory does not suffice."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50, dtype=torch.uint8)
    return raised.value


@pytest.mark.parametrize(
    ("error", "flags", "code"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            EventFlags.CAPACITY_BLOCKED,
            ErrorCode.EXECUTION_CAPACITY_EXCEEDED,
        ),
        (
            _out_of_memory_on_the_cpu(),
            EventFlags.CAPACITY_BLOCKED,
            ErrorCode.EXECUTION_CAPACITY_EXCEEDED,
        ),
        (StepAborted("try again"), EventFlags.RETRYABLE, ErrorCode.RETRYABLE_EXECUTION),
    ],
    ids=["device out of memory", "cpu out of memory", "abort"],
)
@pytest.mark.spec("E83", "E84")
def test_a_lack_of_memory_and_an_abort_undo_the_step_and_the_next_call_repeats_it(
    error: Exception, flags: EventFlags, code: ErrorCode
) -> None:
    decoder = TinyDecoder()
    engine = _engine(decoder)
    request = _begin(engine, PROMPTS[1])
    engine.run()
    before = engine.snapshot()
    decoder.errors.append(error)

    (event,) = engine.run()

    assert (event.flags, event.error_code, event.request) == (flags, code, None)
    assert engine.snapshot() == before
    _finish(engine)
    assert request.tokens.tolist() == PROMPTS[1] + dense_tokens(PROMPTS[1], COUNT)


@pytest.mark.spec("E87", "E88")
def test_any_other_error_of_the_decoder_stops_the_engine_and_is_its_cause() -> None:
    decoder = TinyDecoder()
    engine = _engine(decoder)
    request = _begin(engine, PROMPTS[0])
    cause = RuntimeError("illegal memory access")
    decoder.errors.append(cause)

    (event,) = engine.run()

    assert event.flags == EventFlags.TURN_FINISHED | EventFlags.FAILED
    assert event.error_code is ErrorCode.ENGINE_EXECUTION_FAILURE
    assert event.request is request
    with pytest.raises(EngineFailed, match="illegal memory access") as stored:
        engine.run()
    assert stored.value.__cause__ is cause


def test_logits_without_a_finite_maximum_fail_their_own_turn_only() -> None:
    decoder = TinyDecoder()
    decoder.broken_token = 60
    engine = _engine(decoder)
    healthy = _begin(engine, PROMPTS[1])
    failing = _begin(engine, [1, 60])

    events = _finish(engine)

    (failed,) = (event for event in events if event.request is failing)
    assert failed.error_code is ErrorCode.REQUEST_EXECUTION_FAILURE
    assert healthy.tokens.tolist() == PROMPTS[1] + dense_tokens(PROMPTS[1], COUNT)


@pytest.mark.spec("E73", "E84")
def test_a_sampled_turn_repeats_with_its_seed_alone_and_in_company_and_after_an_abort() -> None:
    params = GeneratorParams(do_sample=True, temperature=2.0, seed=5, max_generated_tokens=COUNT)
    answers = []
    for errors, company in (([], 0), ([], 2), ([None, StepAborted("once")], 1)):
        decoder = TinyDecoder()
        decoder.errors += errors
        engine = _engine(decoder)
        others = [_begin(engine, PROMPTS[each]) for each in range(company)]
        request = _begin(engine, PROMPTS[3], params)
        _finish(engine)
        answers.append(request.tokens.tolist())
        assert [other.tokens.tolist()[: len(PROMPTS[i])] for i, other in enumerate(others)] == list(
            PROMPTS[:company]
        )

    assert answers[1:] == [answers[0], answers[0]]
    assert answers[0] != PROMPTS[3] + dense_tokens(PROMPTS[3], COUNT)


def test_time_in_forward_and_sampling_is_no_host_time() -> None:
    engine = _engine(TinyDecoder())
    request = _begin(engine, PROMPTS[1])
    _finish(engine)

    statistics = engine.statistics()

    assert statistics.generated_tokens == len(request.tokens) - len(PROMPTS[1])
    assert statistics.execution_seconds > 0
    assert statistics.host_seconds > 0
    assert 0 < statistics.host_share < 1
    assert statistics.outcomes[Outcome.COMMITTED] == statistics.steps == COUNT


def test_a_cache_without_tensors_is_refused_before_the_engine_exists() -> None:
    geometry = CacheGeometry(num_blocks=4, block_size=16, max_batch_size=16, table_columns=4)

    with pytest.raises(InputUnusable, match="cache: it has no tensors"):
        Engine(TorchExecutor(TinyDecoder()), cache=PagedCacheManager(geometry))


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_cache_of_foreign_arrays_is_refused(part: str) -> None:
    good, bad = torch.zeros(2, 16, 1, 16), np.zeros((2, 16, 1, 16))
    layer: PagedLayer[object] = PagedLayer(*((bad, good) if part == "key" else (good, bad)))

    with pytest.raises(InputUnusable, match="layer 0: ndarray; allowed: torch tensors"):
        TorchExecutor(TinyDecoder()).bind(
            DecoderState({0: layer}, 16, 2), StepLimits(1, 16), columns=2
        )


def test_a_launch_before_bind_is_refused() -> None:
    with pytest.raises(InputUnusable, match="launch before bind"):
        TorchExecutor(TinyDecoder()).launch(step_work([Row(0, 0, (1,))]))


def test_the_executor_shows_what_the_decoder_says_of_itself() -> None:
    decoder = TinyDecoder()
    executor = TorchExecutor(decoder)

    assert executor.manifest is decoder.manifest
    assert executor.config.vocab_size == VOCABULARY
