"""A decode step makes the same Python and C calls whatever the number of rows and their context."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from pa_engine import Engine, EventBuffer, NullExecutor
from pa_engine.executors.packing import RING_BUFFERS
from pa_spec import EngineConfig

STEPS = 18
"""More than a block: the row's crossing into a new one is among them."""


def decoding(rows: int, context: int) -> tuple[Engine[int], EventBuffer, list[object]]:
    config = EngineConfig(
        num_blocks=rows * (context // 16 + 4),
        max_batch_size=rows,
        max_scheduled_tokens=rows * context,
    )
    engine = Engine(NullExecutor(), config)
    requests: list[object] = []
    for _ in range(rows):
        request = engine.create_request()
        request.begin_turn([7] * context)
        requests.append(request)
    buffer = engine.create_event_buffer(rows)
    for _ in range(1 + RING_BUFFERS):  # each upload buffer grows once to the size it needs
        assert len(engine.run(buffer)) == rows
    return engine, buffer, requests


def calls_of_steps(rows: int, context: int) -> list[int]:
    engine, buffer, requests = decoding(rows, context)
    counts = []
    for _ in range(STEPS):
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        engine.run(buffer)
        sys.setprofile(None)
        counts.append(calls)
    assert len(requests) == rows
    assert engine.statistics().steps == STEPS + 1 + RING_BUFFERS
    return counts


def test_calls_of_a_decode_step_do_not_depend_on_rows() -> None:
    few = calls_of_steps(16, 24)

    assert calls_of_steps(256, 24) == few
    assert calls_of_steps(1024, 24) == few
    assert len(set(few)) <= 2  # with and without a new block


@pytest.mark.spec("E81")
def test_calls_of_a_decode_step_do_not_depend_on_the_context() -> None:
    assert calls_of_steps(4, 8000) == calls_of_steps(4, 64)
