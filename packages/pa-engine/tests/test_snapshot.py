"""A snapshot is everything committed: flip any part of it and the two are unequal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
from engine_cases import BusyEngine, busy_engine
from pa_engine.events import NUM_COLUMNS
from pa_engine.record import RequestRecord
from pa_engine.residents import ResidentColumns, SamplingColumns
from pa_engine.snapshot import RecordSnapshot
from pa_spec import EngineFailed, FinishReason, RequestState

COLUMNS = [field.name for field in fields(ResidentColumns)]
SAMPLING = [field.name for field in fields(SamplingColumns)]
PARTS = {"rows", "records", "waiting", "events", "cache", "failed"}


def _differences(busy: BusyEngine, flip: Callable[[BusyEngine], object]) -> set[str]:
    """Return the parts of the snapshot that a flip makes unequal."""
    before = busy.engine.snapshot()
    assert busy.engine.snapshot() == before

    flip(busy)

    after = busy.engine.snapshot()
    different = {name for name in PARTS if getattr(before, name) != getattr(after, name)}
    assert (after == before) is (not different)
    return different


@pytest.fixture
def busy() -> BusyEngine:
    """Return an engine with rows, a waiting request and undelivered events."""
    busy = busy_engine()
    busy.engine.run(max_events=1)
    assert busy.engine.snapshot().events
    return busy


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.spec("E30", "E84")
def test_every_column_of_a_row_counts(busy: BusyEngine, column: str) -> None:
    def flip(busy: BusyEngine) -> None:
        getattr(busy.core.residents.columns, column)[busy.row(busy.decoding)] += 1

    assert _differences(busy, flip) == {"rows"}


@pytest.mark.parametrize("column", SAMPLING)
def test_every_sampling_column_of_a_row_counts(busy: BusyEngine, column: str) -> None:
    def flip(busy: BusyEngine) -> None:
        values = getattr(busy.core.residents.sampling, column)
        row = busy.row(busy.decoding)
        values[row] = not values[row] if values.dtype == np.bool_ else values[row] + 1

    assert _differences(busy, flip) == {"rows"}


@pytest.mark.spec("E29")
def test_every_committed_token_and_end_id_counts(busy: BusyEngine) -> None:
    row = busy.row(busy.decoding)
    length = int(busy.core.residents.columns.sequence_tokens[row])
    for position in range(length):

        def flip(busy: BusyEngine, position: int = position) -> None:
            busy.core.residents.tokens[row, position] += 1

        assert _differences(busy, flip) == {"rows"}

    def flip_end_id(busy: BusyEngine) -> None:
        busy.core.residents.eos[row, 0] = 5

    assert _differences(busy, flip_end_id) == {"rows"}


def test_what_lies_beyond_a_sequence_and_in_free_rows_is_not_committed(busy: BusyEngine) -> None:
    def scribble(busy: BusyEngine) -> None:
        residents = busy.core.residents
        row = busy.row(busy.decoding)
        residents.tokens[row, residents.columns.sequence_tokens[row] :] = 33
        residents.token_on_device[:] = False

    assert _differences(busy, scribble) == set()

    busy.done.close()

    def scribble_in_free_row(busy: BusyEngine) -> None:
        busy.core.residents.columns.committed_tokens[2] = 33
        busy.core.residents.tokens[2] = 33

    assert _differences(busy, scribble_in_free_row) == set()


def _another_start(record: RequestRecord) -> None:
    assert record.start is not None
    record.start = replace(record.start, sequence_tokens=90)


RECORD_FLIPS: dict[str, Callable[[RequestRecord], object]] = {
    "resident": lambda record: setattr(record, "resident", 2),
    "state": lambda record: setattr(record, "state", RequestState.UNASSIGNED),
    "turns": lambda record: setattr(record, "turns", record.turns + 1),
    "finish_reason": lambda record: setattr(record, "finish_reason", FinishReason.CANCELLED),
    "seed": lambda record: setattr(record, "seed", record.seed + 1),
    "session_limit": lambda record: setattr(record, "session_limit", 7),
    "start": _another_start,
    "tokens": lambda record: setattr(record, "tokens", record.tokens + 1),
}


@pytest.mark.parametrize("name", RECORD_FLIPS)
def test_every_part_of_a_record_counts(busy: BusyEngine, name: str) -> None:
    record = busy.core.registry.records[busy.waiting.id]

    assert _differences(busy, lambda _: RECORD_FLIPS[name](record)) == {"records"}


def test_every_field_of_a_record_is_flipped() -> None:
    told = {field.name for field in fields(RecordSnapshot)} - {"request_id"}

    assert set(RECORD_FLIPS) == told


def test_a_request_more_or_less_counts(busy: BusyEngine) -> None:
    assert _differences(busy, lambda busy: busy.idle.close()) == {"records"}


@pytest.mark.parametrize("column", range(3))
def test_everything_in_the_waiting_queue_counts(busy: BusyEngine, column: int) -> None:
    def flip(busy: BusyEngine) -> None:
        busy.core.waiting.columns[column, 0] += 1

    assert _differences(busy, flip) == {"waiting"}


@pytest.mark.parametrize("column", range(NUM_COLUMNS))
def test_every_column_of_a_retained_event_counts(busy: BusyEngine, column: int) -> None:
    def flip(busy: BusyEngine) -> None:
        busy.core.queue.columns[column, 0] += 1

    assert _differences(busy, flip) == {"events"}


def test_the_order_of_retained_events_counts(busy: BusyEngine) -> None:
    busy.engine.run()
    busy.engine.run(max_events=0)
    busy.core.queue.append(np.arange(2 * NUM_COLUMNS).reshape(NUM_COLUMNS, 2))

    def swap(busy: BusyEngine) -> None:
        busy.core.queue.columns = busy.core.queue.columns[:, ::-1]

    assert _differences(busy, swap) == {"events"}


def test_the_cache_and_a_stored_error_count(busy: BusyEngine) -> None:
    def give_back(busy: BusyEngine) -> None:
        row = np.array([busy.row(busy.done)], np.int32)
        busy.core.cache.release(row, busy.core.step_in_flight)

    def fail(busy: BusyEngine) -> None:
        busy.core.failure = EngineFailed("stopped")

    assert _differences(busy, give_back) == {"cache"}
    assert _differences(busy, fail) == {"failed"}


@pytest.mark.spec("E28", "E30")
def test_a_committed_step_is_another_snapshot_and_looking_is_none(busy: BusyEngine) -> None:
    before = busy.engine.snapshot()

    assert busy.engine.check_all() == ()
    assert busy.engine.statistics().steps == 3
    assert busy.engine.snapshot() == before
    busy.engine.run()
    busy.engine.run()
    assert busy.engine.snapshot() != before


def test_a_snapshot_prints_a_line_for_each_row_and_request(busy: BusyEngine) -> None:
    lines = repr(busy.engine.snapshot()).splitlines()

    assert lines[0] == "waiting [3], 1 events, failed False"
    assert [line.split(":")[0] for line in lines[1:4]] == ["row 0", "row 1", "row 2"]
    assert "sequence_tokens=6" in lines[1]
    assert lines[1].endswith("tokens=[1, 2, 3, 94, 33, 77]")
    assert sum(line.startswith("RecordSnapshot") for line in lines) == 5
