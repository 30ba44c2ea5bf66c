"""The executor without a model: everything but the model is real."""

from __future__ import annotations

import numpy as np
import pytest
from pa_engine import Engine, Event, GeneratorParams, NullExecutor, StepPacker
from pa_spec import EngineConfig, InputUnusable, StepLimits
from step_plans import Row, step_work

LIMITS = StepLimits(max_batch_size=4, max_scheduled_tokens=16)


def test_every_sampling_row_gets_the_fixed_token() -> None:
    engine = Engine(NullExecutor(token=42), EngineConfig(num_blocks=8))
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=3)) for _ in range(3)]
    for request in requests:
        request.begin_turn([7, 8])

    events: list[Event] = []
    while engine.has_pending_requests():
        events += engine.run()

    assert [event.token for event in events] == [42] * 9
    assert [request.tokens.tolist() for request in requests] == [[7, 8, 42, 42, 42]] * 3


def test_rows_that_do_not_sample_get_none() -> None:
    executor = NullExecutor()
    executor.bind(None, LIMITS, columns=2)

    handle = executor.launch(step_work([Row(0, 0, (1, 2), samples=False), Row(1, 4, (-1,))]))

    assert executor.collect(handle, None).token.tolist() == [1]


def test_packing_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[list[int]] = []
    pack = StepPacker.pack

    def note(self: StepPacker, work: object) -> object:
        result = pack(self, work)  # type: ignore[arg-type]
        packed.append(result.input_ids.tolist())
        return result

    monkeypatch.setattr(StepPacker, "pack", note)
    executor = NullExecutor(vocab_size=50, context_length=64)
    engine = Engine(executor, EngineConfig(num_blocks=8))
    request = engine.create_request(GeneratorParams(max_generated_tokens=2))
    request.begin_turn([7, 8, 9])
    engine.run()
    engine.run()

    assert packed[0] == [7, 8, 9]
    assert len(packed) == 2


def test_it_needs_no_cache_tensors_and_costs_no_execution_time() -> None:
    engine = Engine(NullExecutor(), EngineConfig(num_blocks=8))
    request = engine.create_request(GeneratorParams(max_generated_tokens=2))
    request.begin_turn([7])
    while engine.has_pending_requests():
        engine.run()

    statistics = engine.statistics()

    assert NullExecutor().manifest.groups == ()
    assert statistics.execution_seconds == 0
    assert statistics.host_share == 1
    assert len(request.tokens) == 3


@pytest.mark.parametrize("token", [-1, 50])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(InputUnusable, match="ids from 0 to 49"):
        NullExecutor(vocab_size=50, token=token)


def test_a_launch_before_bind_is_refused() -> None:
    with pytest.raises(InputUnusable, match="launch before bind"):
        NullExecutor().launch(step_work([Row(0, 0, (1,))]))


def test_its_answers_do_not_change_with_earlier_steps() -> None:
    executor = NullExecutor(token=3)
    executor.bind(None, LIMITS, columns=2)
    first = executor.collect(executor.launch(step_work([Row(0, 0, (1,))])), None).token
    kept = first.copy()

    executor.discard(executor.launch(step_work([Row(0, 1, (-1,)), Row(1, 0, (5, 6))])))

    assert np.array_equal(first, kept)
