"""Who can run in the next step: arithmetic of blocks, rows and promises. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pa_spec import (
    Admission,
    BoolArray,
    Candidates,
    ContractViolation,
    IndexArray,
    Int64Array,
    StepLimits,
)

from pa_cache.state import CacheState

_NO_CANDIDATE: IndexArray = np.zeros(0, np.intp)
_NO_CANDIDATE.flags.writeable = False


def plan_admission(state: CacheState, candidates: Candidates, limits: StepLimits) -> Admission:
    """Decide who runs, in the order given, passing over those who do not fit (E43 to E48).

    A candidate enters with one provisional token. It needs the blocks of its whole sequence
    (E45), and with limits.reserve_turn_limit a promise of the blocks of its limit_tokens. When
    everybody fits the number of array calls does not depend on how many they are.

    Raises ContractViolation for a resident index that does not exist.
    """
    count = len(candidates.resident)
    if not count:
        return Admission(_NO_CANDIDATE, candidates.resident, _NO_CANDIDATE, _NO_CANDIDATE)
    new = candidates.resident < 0
    num_new = int(np.count_nonzero(new))
    demand = _demand(state, candidates, limits, new if num_new else None)
    most = state.geometry.max_sequence_blocks
    everybody_fits = (
        count <= min(limits.max_scheduled_tokens, limits.max_batch_size)
        and num_new <= len(candidates.free_resident)
        and int(demand.blocks.max()) <= most
        and int(demand.growth.sum()) <= state.pool.available
        and (demand.promise is None or int(demand.promise.sum()) <= _unpromised(state))
    )
    if everybody_fits:
        selected, deferred, unserviceable = np.arange(count), _NO_CANDIDATE, _NO_CANDIDATE
    else:
        possible = np.flatnonzero(demand.blocks <= most)
        unserviceable = np.flatnonzero(demand.blocks > most)
        costs, budgets = _accounts(state, candidates, limits, demand)
        chosen = select_in_order(costs[:, possible], budgets)
        selected, deferred = possible[chosen], possible[~chosen]
    resident = candidates.resident
    if not everybody_fits or num_new:
        resident = resident[selected]
        takes = resident < 0
        resident[takes] = candidates.free_resident[: int(np.count_nonzero(takes))]
    return Admission(selected, resident, deferred, unserviceable)


def select_in_order(costs: Int64Array, budgets: Int64Array) -> BoolArray:
    """Choose candidates in order, passing over each that some budget no longer holds (E44).

    costs: [budgets, c] >= 0, what each candidate takes from each budget. budgets: [budgets].
    Returns [c]. Works in rounds: a round takes candidates up to the first that does not fit, and
    drops every later one that would not fit even next. It leaves less of some budget than what
    that candidate costs, so there are at most as many rounds as budgets have different costs.
    """
    left = np.maximum(budgets, 0)
    chosen = np.zeros(costs.shape[1], np.bool_)
    open_candidates = np.arange(costs.shape[1])
    while True:
        fits = np.logical_and.reduce(costs[:, open_candidates] <= left[:, None], axis=0)
        open_candidates = open_candidates[fits]
        if not len(open_candidates):
            return chosen
        running = costs[:, open_candidates].cumsum(axis=1)
        over = np.logical_or.reduce(running > left[:, None], axis=0)
        stop = int(over.argmax()) if over.any() else len(over)
        chosen[open_candidates[:stop]] = True
        left = left - running[:, stop - 1]
        open_candidates = open_candidates[stop + 1 :]


@dataclass(frozen=True, slots=True)
class _Demand:
    """What candidates want, all [c]: blocks owned in all, blocks now, blocks newly promised."""

    blocks: Int64Array
    growth: Int64Array
    promise: Int64Array | None


def _demand(
    state: CacheState, candidates: Candidates, limits: StepLimits, new: BoolArray | None
) -> _Demand:
    tables, geometry = state.tables, state.geometry
    target = candidates.committed_tokens + 1
    blocks = geometry.blocks_for(np.maximum(candidates.sequence_tokens, target))
    try:
        # A new candidate's index -1 reads the last resident's column, which is then set to 0.
        rows = candidates.resident.astype(np.intp)
        owned = tables.projected_blocks.take(rows)
        promised = tables.projected_promised.take(rows) if limits.reserve_turn_limit else owned
    except IndexError as error:
        raise ContractViolation(
            "E49",
            "candidates.resident",
            f"indices below {geometry.max_batch_size}",
            f"{candidates.resident.max()}",
        ) from error
    if new is not None:
        owned[new] = 0
        promised[new] = 0
    growth = np.maximum(blocks - owned, 0)
    if not limits.reserve_turn_limit:
        return _Demand(blocks, growth, None)
    blocks = np.maximum(blocks, geometry.blocks_for(candidates.limit_tokens))
    return _Demand(blocks, growth, np.maximum(blocks - np.maximum(owned, promised), 0))


def _unpromised(state: CacheState) -> int:
    return state.pool.available - state.tables.outstanding_promises


def _accounts(
    state: CacheState, candidates: Candidates, limits: StepLimits, demand: _Demand
) -> tuple[Int64Array, Int64Array]:
    """Return costs [budgets, c] and budgets: rows, new residents, blocks, promises."""
    is_new = (candidates.resident < 0).astype(np.int64)
    costs = [np.ones_like(is_new), is_new, demand.growth]
    max_rows = min(limits.max_scheduled_tokens, limits.max_batch_size)
    budgets = [max_rows, len(candidates.free_resident), state.pool.available]
    if demand.promise is not None:
        costs.append(demand.promise)
        budgets.append(_unpromised(state))
    return np.stack(costs), np.array(budgets, np.int64)
