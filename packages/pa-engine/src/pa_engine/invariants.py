"""The engine's own invariants, as a full scan: in tests, after rollbacks and on demand.

Each check has an id in spec/checks/engine.toml that cites the invariant it defends. The cache
makes its own (CacheAudit.check_all). What runs before every step's publication is in step/check.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pa_spec import BoolArray, Int32Array, RequestState, Violation

from pa_engine.core import EngineCore
from pa_engine.residents import FREE


def check_all(core: EngineCore) -> Sequence[Violation]:
    """Scan every resident, record, queue and the cache; empty when all is well."""
    return (
        *_check_rows(core),
        *_check_records(core),
        *_check_queue(core),
        *core.cache.audit.check_all(),
        *_check_boundaries(core),
    )


def _check_rows(core: EngineCore) -> Iterator[Violation]:
    residents = core.residents
    columns = residents.columns
    owned = columns.state != FREE
    every = np.arange(len(owned), dtype=np.int32)
    late = columns.committed_tokens > columns.sequence_tokens
    running = owned & (columns.state != int(RequestState.TURN_COMPLETE))
    done = running & (columns.committed_tokens >= columns.sequence_tokens)
    over = columns.sequence_tokens > columns.session_limit
    output = columns.turn_generated > columns.turn_limit
    wide = columns.sequence_tokens > residents.tokens.shape[1]
    for check, broken, found in (
        ("counters.order", owned & late, "committed tokens exceed the sequence"),
        ("rows.work", done, "an executable row without a token to process"),
        ("limits.session", owned & over, "sequence beyond its session limit"),
        ("limits.turn", owned & output, "output beyond its turn limit"),
        ("mirror.capacity", owned & wide, "sequence longer than the token mirror"),
        ("rows.free", ~owned & (columns.request != FREE), "a free row with an owner"),
    ):
        yield from each_violation(check, broken, every, found)
    ids = columns.request[owned]
    if len(np.unique(ids)) != len(ids):
        yield Violation("rows.owner", "two rows belong to one request")
    vocabulary = core.decoder.vocab_size
    for row in np.flatnonzero(owned & ~wide).tolist():
        tokens = residents.tokens[row, : columns.sequence_tokens[row]]
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
            yield Violation("mirror.vocabulary", f"resident {row}: a token outside the vocabulary")


def _check_records(core: EngineCore) -> Iterator[Violation]:
    columns, waiting = core.residents.columns, core.waiting.requests.tolist()
    for record in core.registry.records.values():
        row, name = record.resident, f"request {record.request_id}"
        if row >= 0 and columns.request[row] != record.request_id:
            yield Violation("records.row", f"{name}: row {row} belongs to {columns.request[row]}")
        waits = row < 0 and record.state is RequestState.ASSIGNED
        if waits != (record.request_id in waiting):
            yield Violation(
                "records.waiting", f"{name}: {record.state.name} and not in step with the queue"
            )
    known = {r.request_id for r in core.registry.records.values() if r.resident >= 0}
    for row in np.flatnonzero(columns.state != FREE).tolist():
        if int(columns.request[row]) not in known:
            yield Violation(
                "rows.record", f"resident {row}: no record of request {columns.request[row]}"
            )


def _check_queue(core: EngineCore) -> Iterator[Violation]:
    for request_id in set(core.queue.columns[1].tolist()):
        if request_id >= 0 and request_id not in core.registry.records:
            yield Violation("events.owner", f"undelivered event of closed request {request_id}")


def _check_boundaries(core: EngineCore) -> Iterator[Violation]:
    """E65: the cache's own committed tokens equal the engine's, row by row."""
    columns = core.residents.columns
    owned = np.flatnonzero(columns.state != FREE).astype(np.int32)
    theirs = core.cache.audit.committed(owned)
    yield from each_violation(
        "boundary.agreement", columns.committed_tokens[owned] != theirs, owned, "cache disagrees"
    )


def each_violation(
    check: str, broken: BoolArray, owners: Int32Array, found: str
) -> Iterator[Violation]:
    for owner in owners[broken].tolist():
        yield Violation(check, f"resident {owner}: {found}")
