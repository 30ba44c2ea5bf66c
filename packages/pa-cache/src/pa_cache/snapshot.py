"""Committed state of a cache as a value: equal when nothing has changed, readable when it has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np
from pa_spec import Int32Array, Int64Array

from pa_cache.block_table import NOBODY
from pa_cache.state import CacheState

_SHOWN_IDS = 12
"""Ids of one set that a printed snapshot lists before it abbreviates."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CacheSnapshot:
    """Everything committed: what a rolled back step must leave as it was.

    Live reservations do not show: their blocks count as free here. request, num_blocks,
    committed_tokens, generation, promised_blocks: [R]. table: the committed prefixes, one after
    another. reference_count, outside_holds: [N]. free: [·] ids, ascending. quarantine: [·, 2]
    (id, last step), ascending. pool_generation: [1]. Two are equal when all of these are. The
    highest use so far and the number of the last ended step are no part of it.
    """

    request: Int64Array
    num_blocks: Int32Array
    committed_tokens: Int64Array
    generation: Int64Array
    promised_blocks: Int32Array
    table: Int32Array
    reference_count: Int32Array
    outside_holds: Int32Array
    free: Int32Array
    quarantine: Int64Array
    pool_generation: Int64Array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CacheSnapshot):
            return NotImplemented
        return not self.differences(other)

    __hash__ = None  # type: ignore[assignment]  # an array has no hash either

    def differences(self, other: CacheSnapshot) -> tuple[str, ...]:
        """Return the names of the parts in which the two differ."""
        return tuple(
            each.name
            for each in fields(self)
            if not np.array_equal(getattr(self, each.name), getattr(other, each.name))
        )

    def table_of(self, resident: int) -> Int32Array:
        """Return the committed block ids of one resident."""
        first = int(self.num_blocks[:resident].sum())
        return self.table[first : first + int(self.num_blocks[resident])]

    def __repr__(self) -> str:
        lines = [
            f"CacheSnapshot(pool generation {self.pool_generation[0]}",
            f"  free {_brief(self.free)}",
        ]
        if len(self.quarantine):
            waiting = ", ".join(f"{block} until {step}" for block, step in self.quarantine)
            lines.append(f"  quarantine {waiting}")
        shared = np.flatnonzero(self.reference_count > 1)
        if len(shared):
            counts = ", ".join(f"{block}: {self.reference_count[block]}" for block in shared)
            lines.append(f"  holders {counts}")
        if self.outside_holds.any():
            lines.append(f"  held outside tables {_brief(np.flatnonzero(self.outside_holds))}")
        lines.append("  resident request generation tokens promised blocks")
        seen = (self.request != NOBODY) | (self.generation != 0)
        lines += [
            f"  {row:8} {self.request[row]:7} {self.generation[row]:10} "
            f"{self.committed_tokens[row]:6} {self.promised_blocks[row]:8} "
            f"{_brief(self.table_of(row))}"
            for row in np.flatnonzero(seen).tolist()
        ]
        return "\n".join(lines) + ")"


def take_snapshot(state: CacheState) -> CacheSnapshot:
    """Copy everything committed."""
    pool, tables = state.pool, state.tables
    waiting = np.stack(
        [
            pool.quarantine[: pool.quarantined].astype(np.int64),
            pool.quarantine_step[: pool.quarantined],
        ],
        axis=1,
    )
    return CacheSnapshot(
        request=tables.request.copy(),
        num_blocks=tables.num_blocks.copy(),
        committed_tokens=tables.committed_tokens.copy(),
        generation=tables.generation.copy(),
        promised_blocks=tables.promised_blocks.copy(),
        table=tables.owned_from(np.arange(len(tables.num_blocks))),
        reference_count=pool.reference_count.copy(),
        outside_holds=state.outside_holds.copy(),
        free=np.sort(pool.free[: pool.top]),
        quarantine=waiting[np.argsort(waiting[:, 0], kind="stable")],
        pool_generation=np.array([pool.generation]),
    )


def _brief(ids: Int32Array | Int64Array) -> str:
    shown = " ".join(str(each) for each in ids[:_SHOWN_IDS])
    rest = len(ids) - _SHOWN_IDS
    return f"{len(ids)}: [{shown}{f' … {rest} more' if rest > 0 else ''}]"
