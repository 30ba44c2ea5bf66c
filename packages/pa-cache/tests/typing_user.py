"""A user's file: it must type-check against the public names of pa_cache."""

from __future__ import annotations

import numpy as np
from pa_cache import CacheGeometry, PagedCacheManager, blocks_for_budget
from pa_spec import (
    Admission,
    CacheAudit,
    Candidates,
    EngineConfig,
    StateManifest,
    StepCache,
    StepId,
    StepLimits,
    StepPlan,
    StepReservation,
    Violation,
)

manager = PagedCacheManager(CacheGeometry(8, 16, 4, 8))
cache: StepCache = manager
audit: CacheAudit = manager.audit
peak: int = manager.peak


def sized(manifest: StateManifest) -> StepCache:
    blocks: int = blocks_for_budget(manifest, 16, 2**20)
    return PagedCacheManager.for_manifest(manifest, EngineConfig(num_blocks=blocks), 2048)


def run(candidates: Candidates, limits: StepLimits, plan: StepPlan) -> Admission:
    reservation: StepReservation = cache.reserve(StepId(1), plan)
    found: list[Violation] = list(reservation.validate())
    if found:
        reservation.discard()
    cache.release(np.array([0], np.int32), StepId(0), np.array([16]))
    return cache.plan_admission(candidates, limits)
