"""With reserve_turn_limit the growth of an admitted turn never fails.

A small engine drives the cache at random: it begins turns, runs steps in chunks, ends turns
early, continues residents, aborts steps and closes requests. After every planning, each row whose
turn was admitted is among the selected ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from cache_steps import Row, cache_of, candidates_of, ids, plan_of, publish, run_step
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_admission import blocks, outstanding
from pa_cache import PagedCacheManager
from pa_spec import StepId, StepLimits

ROWS = 5
LIMITS = StepLimits(ROWS, 1000, reserve_turn_limit=True)


def plan_one(cache: PagedCacheManager, row: Row) -> str:
    admission = cache.plan_admission(candidates_of([row], range(1, 4)), LIMITS)
    if len(admission.unserviceable):
        return "unserviceable"
    return "selected" if len(admission.selected) else "deferred"


def test_a_turn_whose_limit_exceeds_the_pool_is_unserviceable() -> None:
    cache = cache_of(4)

    assert plan_one(cache, Row(-1, 1, sequence=5, limit=64)) == "selected"
    assert plan_one(cache, Row(-1, 1, sequence=5, limit=65)) == "unserviceable"


def test_a_prompt_longer_than_its_limit_is_promised_its_own_blocks() -> None:
    cache = cache_of(4)
    run_step(cache, 1, Row(0, 9, tokens=17, is_new=True, limit=16))

    assert cache.tables.promised_blocks[0] == 2


def test_a_turn_waits_until_what_others_were_promised_leaves_room() -> None:
    cache = cache_of(4)
    run_step(cache, 1, Row(0, 9, tokens=5, is_new=True, limit=40))

    assert plan_one(cache, Row(-1, 1, sequence=5, limit=17)) == "deferred"
    assert plan_one(cache, Row(-1, 1, sequence=5, limit=16)) == "selected"


def test_a_turn_that_ends_early_gives_its_promise_back_and_keeps_its_tokens() -> None:
    cache = cache_of(4)
    run_step(cache, 1, Row(0, 9, tokens=5, is_new=True, limit=64))
    assert plan_one(cache, Row(-1, 1, sequence=5, limit=16)) == "deferred"

    cache.release(ids(0), StepId(0), np.array([5]))

    assert plan_one(cache, Row(-1, 1, sequence=5, limit=48)) == "selected"
    assert cache.audit.committed(ids(0)).tolist() == [5]
    assert cache.tables.num_blocks[0] == 1
    assert cache.tables.request[0] == 9


def test_a_cancelled_prompt_gives_back_the_blocks_that_hold_no_token() -> None:
    cache = cache_of(8)
    run_step(cache, 1, Row(0, 9, tokens=20, is_new=True, sequence=100))

    cache.release(ids(0), StepId(0), np.array([20]))

    assert cache.tables.num_blocks[0] == 2
    assert cache.usage.free == 6
    assert cache.audit.check_all() == []


def test_a_continuation_needs_a_new_promise() -> None:
    cache = cache_of(4)
    run_step(cache, 1, Row(0, 9, tokens=16, is_new=True, limit=64))
    cache.release(ids(0), StepId(0), np.array([16]))
    run_step(cache, 2, Row(1, 10, tokens=5, is_new=True, limit=40))

    assert plan_one(cache, Row(0, 9, past=16, sequence=17, limit=16)) == "deferred"
    cache.release(ids(1), StepId(0), np.array([5]))
    assert plan_one(cache, Row(0, 9, past=16, sequence=17, limit=48)) == "selected"


def test_an_aborted_admission_promises_nothing() -> None:
    cache = cache_of(4)
    row = Row(0, 9, tokens=5, is_new=True, limit=64)

    cache.reserve(StepId(1), plan_of([row])).discard()

    assert cache.tables.projected_promised[0] == 0
    assert plan_one(cache, Row(-1, 1, sequence=5, limit=64)) == "selected"


def test_what_a_live_reservation_promises_counts_already() -> None:
    cache = cache_of(4)
    reservation = cache.reserve(StepId(1), plan_of([Row(0, 9, tokens=5, is_new=True, limit=64)]))

    assert plan_one(cache, Row(-1, 1, sequence=5, limit=16)) == "deferred"
    reservation.discard()
    assert plan_one(cache, Row(-1, 1, sequence=5, limit=16)) == "selected"


@dataclass
class Turn:
    resident: int
    request: int
    sequence: int
    limit: int
    prompt: int
    committed: int = 0
    is_admitted: bool = False


class SmallEngine:
    """Turns by resident, -1 while waiting; every choice comes from the random source."""

    def __init__(self, source: Random, num_blocks: int) -> None:
        self.random = source
        self.cache = cache_of(num_blocks, max_batch_size=ROWS)
        self.waiting: list[Turn] = []
        self.running: list[Turn] = []
        self.dormant: list[Turn] = []
        self.requests = self.steps = 0

    def begin(self) -> None:
        prompt = self.random.randint(1, 60)
        limit = prompt + self.random.randint(0, 60)
        self.requests += 1
        self.waiting.append(Turn(-1, self.requests, prompt, limit, prompt))

    def continue_one(self) -> None:
        if self.dormant:
            turn = self.dormant.pop(self.random.randrange(len(self.dormant)))
            turn.sequence += self.random.randint(1, 20)
            turn.prompt = turn.sequence
            turn.limit = turn.sequence + self.random.randint(0, 40)
            self.running.append(turn)

    def end(self, turn: Turn) -> None:
        self.running.remove(turn)
        turn.is_admitted = False
        self.cache.release(ids(turn.resident), StepId(0), np.array([turn.committed]))
        self.dormant.append(turn)

    def close_one(self) -> None:
        resident = [*self.running, *self.dormant]
        if resident:
            turn = self.random.choice(resident)
            (self.running if turn in self.running else self.dormant).remove(turn)
            self.cache.release(ids(turn.resident), StepId(0))

    def step(self, *, aborts: bool) -> None:
        turns = [*self.running, *self.waiting]
        self.random.shuffle(turns)
        rows = [
            Row(each.resident, each.request, each.committed, 1, False, each.sequence, each.limit)
            for each in turns
        ]
        used = {each.resident for each in [*self.running, *self.dormant]}
        free = [each for each in range(ROWS) if each not in used]
        admission = self.cache.plan_admission(candidates_of(rows, free), LIMITS)
        chosen = dict(zip(admission.selected.tolist(), admission.resident.tolist(), strict=True))
        for place, turn in enumerate(turns):
            assert place in chosen or not turn.is_admitted
        for place in admission.unserviceable.tolist():
            assert blocks(turns[place].limit) > self.cache.num_blocks
            self.finish_unserviceable(turns[place])
        self.execute(
            [(turns[place], resident) for place, resident in chosen.items()], aborts=aborts
        )

    def finish_unserviceable(self, turn: Turn) -> None:
        if turn in self.waiting:
            self.waiting.remove(turn)
        else:
            turn.sequence = turn.committed
            self.end(turn)

    def execute(self, chosen: list[tuple[Turn, int]], *, aborts: bool) -> None:
        self.steps += 1
        rows = []
        for turn, resident in chosen:
            tokens = self.random.randint(1, turn.sequence - turn.committed)
            is_new = turn.resident < 0
            row = Row(resident, turn.request, turn.committed, tokens, is_new, turn.sequence)
            is_prefill = turn.committed < turn.prompt
            rows.append(replace(row, limit=turn.limit, is_prefill=is_prefill))
        reservation = self.cache.reserve(StepId(self.steps), plan_of(rows))
        if aborts:
            reservation.discard()
            return
        publish(reservation)
        for (turn, resident), row in zip(chosen, rows, strict=True):
            if turn in self.waiting:
                self.waiting.remove(turn)
                self.running.append(turn)
            turn.resident, turn.is_admitted, turn.committed = resident, True, row.target
            if turn.committed == turn.sequence:
                # The limit counts tokens in the cache, which the last generated one never is.
                turn.sequence += 1
                if turn.sequence > turn.limit or self.random.random() < 0.1:
                    self.end(turn)


@pytest.mark.spec("E45")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 24))
def test_an_admitted_turn_never_waits_for_growth(seed: int, num_blocks: int) -> None:
    engine = SmallEngine(Random(seed), num_blocks)
    for _ in range(60):
        action = engine.random.random()
        if action < 0.25:
            engine.begin()
        elif action < 0.35:
            engine.continue_one()
        elif action < 0.4:
            engine.close_one()
        else:
            engine.step(aborts=action > 0.93)
        assert outstanding(engine.cache) <= engine.cache.usage.free
        assert engine.cache.tables.outstanding_promises == outstanding(engine.cache)
        assert engine.cache.audit.check_all() == []
