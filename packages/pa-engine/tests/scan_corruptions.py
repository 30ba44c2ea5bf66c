"""Corruptions that a full scan must report: one for each of its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from engine_cases import BusyEngine
from pa_engine.events import REQUEST, empty_columns


@dataclass(frozen=True)
class Planted:
    """A corruption of a busy engine, the check it is for, and what it makes that one say."""

    check_id: str
    corrupt: Callable[[BusyEngine], None]
    found: str
    also: frozenset[str] = frozenset()

    @property
    def reported(self) -> set[str]:
        """Every id that is reported."""
        return {self.check_id, *self.also}


def set_column(column: str, value: int) -> Callable[[BusyEngine], None]:
    """Set a column of the decoding request's row."""

    def corrupt(busy: BusyEngine) -> None:
        getattr(busy.core.residents.columns, column)[busy.row(busy.decoding)] = value

    return corrupt


def _add(column: str, value: int) -> Callable[[BusyEngine], None]:
    def corrupt(busy: BusyEngine) -> None:
        getattr(busy.core.residents.columns, column)[busy.row(busy.decoding)] += value

    return corrupt


def _retain_event_of_nobody(busy: BusyEngine) -> None:
    event = empty_columns(1)
    event[REQUEST] = 77
    busy.core.queue.append(event)


def _narrow_mirror(busy: BusyEngine) -> None:
    busy.core.residents.tokens = busy.core.residents.tokens[:, :4]


def _write_foreign_token(busy: BusyEngine) -> None:
    busy.core.residents.tokens[busy.row(busy.decoding), 1] = 97


def _swap_records(busy: BusyEngine) -> None:
    records = busy.core.registry.records
    mine, other = records[busy.decoding.id], records[busy.other.id]
    mine.resident, other.resident = other.resident, mine.resident


def _empty_the_queue(busy: BusyEngine) -> None:
    busy.core.waiting.remove(np.array([busy.waiting.id]))


def _queue_twice(busy: BusyEngine) -> None:
    busy.core.waiting.append(busy.waiting.id, 3, 6)


def _own_a_free_row(busy: BusyEngine) -> None:
    busy.done.close()
    busy.core.residents.columns.request[2] = 5


def _forget_record(busy: BusyEngine) -> None:
    del busy.core.registry.records[busy.done.id]


def _own_two_rows(busy: BusyEngine) -> None:
    columns = busy.core.residents.columns
    columns.request[busy.row(busy.other)] = busy.decoding.id


def _run_what_is_done(busy: BusyEngine) -> None:
    columns = busy.core.residents.columns
    row = busy.row(busy.decoding)
    columns.sequence_tokens[row] = columns.committed_tokens[row]


IN_FULL_SCAN = (
    Planted("boundary.agreement", _add("committed_tokens", -1), "has 3 committed tokens, .* 4"),
    Planted(
        "counters.order",
        set_column("committed_tokens", -1),
        "committed -1 is not from 0 to sequence 5",
        frozenset({"boundary.agreement"}),
    ),
    Planted("events.owner", _retain_event_of_nobody, "request 77, which is closed"),
    Planted("limits.session", set_column("session_limit", 4), "of 5 tokens, its session ends at 4"),
    Planted(
        "limits.turn", set_column("turn_generated", 10), "10 generated tokens, its turn ends at 9"
    ),
    Planted("mirror.capacity", _narrow_mirror, "of 5 tokens, the mirror holds 4"),
    Planted("mirror.vocabulary", _write_foreign_token, "holds token 97, ids are 0 to 96"),
    Planted("records.row", _swap_records, "request 0: its row 1 belongs to request 1"),
    Planted("records.waiting", _empty_the_queue, "request 3: ASSIGNED in row -1, and 0 times"),
    Planted("records.waiting", _queue_twice, "request 3: ASSIGNED in row -1, and 2 times"),
    Planted("rows.free", _own_a_free_row, "resident 2: nobody's row belongs to request 5"),
    Planted("rows.owner", _own_two_rows, "request 0 has 2 rows", frozenset({"records.row"})),
    Planted("rows.record", _forget_record, "resident 2: request 2 has no record"),
    Planted("rows.work", _run_what_is_done, "to be run with 4 of 4 tokens committed"),
)
