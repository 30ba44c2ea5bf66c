"""The engine's own invariants, as a full scan: in tests, after rollbacks and on demand.

Each check has an id in spec/checks/engine.toml that cites the invariant it defends. The cache
makes its own (CacheAudit.check_all). What runs before every step's publication is in step/check.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pa_spec import RequestState, Violation

from pa_engine.core import EngineCore
from pa_engine.events import REQUEST
from pa_engine.report import each_violation, violation
from pa_engine.residents import FREE


def check_all(core: EngineCore) -> Sequence[Violation]:
    """Scan every resident, record, queue and the cache; empty when all is well."""
    return (
        *_check_rows(core),
        *_check_mirror(core),
        *_check_records(core),
        *_check_queue(core),
        *core.cache.audit.check_all(),
        *_check_boundaries(core),
    )


def _check_rows(core: EngineCore) -> Iterator[Violation]:
    columns = core.residents.columns
    every = np.arange(len(columns.state), dtype=np.int32)
    owned = columns.state != FREE
    committed, sequence = columns.committed_tokens, columns.sequence_tokens
    late = (committed < 0) | (committed > sequence)
    runs = columns.state != int(RequestState.TURN_COMPLETE)
    counts = {"committed_tokens": committed, "sequence_tokens": sequence}
    limit, generated = columns.session_limit, columns.turn_generated
    over = {"sequence_tokens": sequence, "limit": limit}
    beyond = {"generated": generated, "limit": columns.turn_limit}
    for check_id, broken, found in (
        ("counters.order", owned & late, counts),
        ("rows.work", owned & runs & (committed >= sequence), counts),
        ("limits.session", owned & (sequence > limit), over),
        ("limits.turn", owned & (generated > columns.turn_limit), beyond),
        ("rows.free", ~owned & (columns.request != FREE), {"request": columns.request}),
    ):
        yield from each_violation(check_id, broken, every, **found)
    ids, rows = np.unique(columns.request[owned], return_counts=True)
    for request, times in zip(ids.tolist(), rows.tolist(), strict=True):
        if times > 1:
            yield violation("rows.owner", request=request, rows=times)


def _check_mirror(core: EngineCore) -> Iterator[Violation]:
    residents, last = core.residents, core.decoder.vocab_size - 1
    capacity = residents.tokens.shape[1]
    for row in np.flatnonzero(residents.columns.state != FREE).tolist():
        length = int(residents.columns.sequence_tokens[row])
        if length > capacity:
            yield violation(
                "mirror.capacity", resident=row, sequence_tokens=length, capacity=capacity
            )
        tokens = residents.tokens[row, :length]
        for token in tokens[(tokens < 0) | (tokens > last)].tolist():
            yield violation("mirror.vocabulary", resident=row, token=token, last=last)


def _check_records(core: EngineCore) -> Iterator[Violation]:
    columns, waiting = core.residents.columns, core.waiting.requests.tolist()
    records = core.registry.records.values()
    for record in records:
        request, row = record.request_id, record.resident
        if row >= 0 and columns.request[row] != request:
            owner = int(columns.request[row])
            yield violation("records.row", request=request, resident=row, owner=owner)
        waits = row < 0 and record.state is RequestState.ASSIGNED
        places = waiting.count(request)
        if places != waits:
            state = record.state.name
            yield violation(
                "records.waiting", request=request, state=state, resident=row, places=places
            )
    known = {record.request_id for record in records if record.resident >= 0}
    for row in np.flatnonzero(columns.state != FREE).tolist():
        if int(columns.request[row]) not in known:
            yield violation("rows.record", resident=row, request=int(columns.request[row]))


def _check_queue(core: EngineCore) -> Iterator[Violation]:
    for request_id in np.unique(core.queue.columns[REQUEST]).tolist():
        if request_id >= 0 and request_id not in core.registry.records:
            yield violation("events.owner", request=request_id)


def _check_boundaries(core: EngineCore) -> Iterator[Violation]:
    """E65: the cache's own committed tokens equal the engine's, row by row."""
    columns = core.residents.columns
    owned = np.flatnonzero(columns.state != FREE).astype(np.int32)
    ours, theirs = columns.committed_tokens[owned], core.cache.audit.committed(owned)
    yield from each_violation(
        "boundary.agreement", ours != theirs, owned, engine_tokens=ours, other_tokens=theirs
    )
