"""Everything committed, as a value: equal before a step and after its rollback (E84)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pa_engine.core import EngineCore
from pa_engine.residents import FREE, ResidentColumns, SamplingColumns, TurnStart

_KEPT = tuple(field.name for field in fields(ResidentColumns))
_SAMPLING = tuple(field.name for field in fields(SamplingColumns))


@dataclass(frozen=True, slots=True)
class RowSnapshot:
    """One resident: columns and sampling by name, its end-of-sequence ids and its tokens."""

    columns: tuple[tuple[str, int], ...]
    sampling: tuple[tuple[str, float], ...]
    eos: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordSnapshot:
    """One request: where it stands, what its turn began with, and its sequence without a row."""

    request_id: int
    resident: int
    state: str
    turns: int
    finish_reason: str
    seed: int
    session_limit: int
    start: TurnStart | None
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Committed state of an engine and its cache.

    rows: resident index → its row. records: every open request. waiting: (id, sequence and limit
    tokens) in order. events: undelivered events, a row each. cache: the cache's own snapshot.
    failed: a stored error.
    """

    rows: tuple[tuple[int, RowSnapshot], ...]
    records: tuple[RecordSnapshot, ...]
    waiting: tuple[tuple[int, ...], ...]
    events: tuple[tuple[int, ...], ...]
    cache: object
    failed: bool

    def __repr__(self) -> str:
        waiting = [request for request, _, _ in self.waiting]
        lines = [f"waiting {waiting}, {len(self.events)} events, failed {self.failed}"]
        for index, row in self.rows:
            told = " ".join(f"{name}={value}" for name, value in row.columns)
            lines.append(f"row {index}: {told} tokens={list(row.tokens)}")
        lines += [f"{record}" for record in self.records]
        lines.append(f"{self.cache!r}")
        return "\n".join(lines)


def take_snapshot(core: EngineCore) -> EngineSnapshot:
    """Copy everything committed; rows that nobody owns hold nothing committed."""
    owned = np.flatnonzero(core.residents.columns.state != FREE).tolist()
    return EngineSnapshot(
        rows=tuple((row, _row(core, row)) for row in owned),
        records=tuple(
            RecordSnapshot(
                record.request_id,
                record.resident,
                record.state.name,
                record.turns,
                record.finish_reason.name,
                record.seed,
                record.session_limit,
                record.start,
                tuple(record.tokens.tolist()),
            )
            for record in core.registry.records.values()
        ),
        waiting=tuple(tuple(request) for request in core.waiting.columns.T.tolist()),
        events=tuple(tuple(event) for event in core.queue.columns.T.tolist()),
        cache=core.cache.audit.snapshot(),
        failed=core.failure is not None,
    )


def _row(core: EngineCore, row: int) -> RowSnapshot:
    residents = core.residents
    columns, sampling = residents.columns, residents.sampling
    length = int(columns.sequence_tokens[row])
    return RowSnapshot(
        tuple((name, int(getattr(columns, name)[row])) for name in _KEPT),
        tuple((name, float(getattr(sampling, name)[row])) for name in _SAMPLING),
        tuple(residents.eos[row].tolist()),
        tuple(residents.tokens[row, :length].tolist()),
    )
