"""Paged KV cache: block pool, block tables, transactional reservations."""

from pa_cache._version import __version__
from pa_cache.audit import PagedCacheAudit
from pa_cache.block_pool import BlockPool
from pa_cache.block_table import NOBODY, BlockTables, CacheGeometry
from pa_cache.contract import IMPLEMENTS_CONTRACT
from pa_cache.paged_cache import PagedCacheManager
from pa_cache.reservation import PagedReservation, ReservationState
from pa_cache.sizing import block_bytes, blocks_for_budget, plan_geometry
from pa_cache.snapshot import CacheSnapshot
from pa_cache.storage import allocate_state

__all__ = [
    "IMPLEMENTS_CONTRACT",
    "NOBODY",
    "BlockPool",
    "BlockTables",
    "CacheGeometry",
    "CacheSnapshot",
    "PagedCacheAudit",
    "PagedCacheManager",
    "PagedReservation",
    "ReservationState",
    "__version__",
    "allocate_state",
    "block_bytes",
    "blocks_for_budget",
    "plan_geometry",
]
