"""Everything that a paged cache knows, in one place that its parts work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pa_spec import IndexArray, Int32Array

from pa_cache.block_pool import BlockPool
from pa_cache.block_table import BlockTables, CacheGeometry

if TYPE_CHECKING:
    from pa_cache.reservation import PagedReservation


@dataclass(slots=True, eq=False)
class CacheState:
    """Pool, tables and live reservations of one cache.

    live: reservations that are neither published nor discarded, the oldest first.
    outside_holds: [N] int32 holders of each block that are not tables (an index for reuse).
    expected_generation: the pool's generation as far as changes went through the cache; a live
    reservation is void when the two differ (E82). peak_blocks: most committed blocks so far.
    row_mark: [R], block_mark: [N] scratch with which checks find repeated indices.
    """

    geometry: CacheGeometry
    pool: BlockPool = field(init=False)
    tables: BlockTables = field(init=False)
    live: list[PagedReservation] = field(init=False, default_factory=list)
    outside_holds: Int32Array = field(init=False)
    row_mark: IndexArray = field(init=False)
    block_mark: IndexArray = field(init=False)
    expected_generation: int = field(init=False, default=0)
    peak_blocks: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.geometry.num_blocks)
        self.tables = BlockTables(self.geometry)
        self.outside_holds = np.zeros(self.geometry.num_blocks, np.int32)
        self.row_mark = np.zeros(self.geometry.max_batch_size, np.intp)
        self.block_mark = np.zeros(self.geometry.num_blocks, np.intp)
