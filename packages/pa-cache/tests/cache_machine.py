"""A paged cache next to a naive model of it, under any order of calls.

The model knows reservations, sharing and quarantine as dicts and sets of block ids; after every
call each block must be where the model has it. Not covered: admission (test_admission.py) and
promises (test_promise.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from cache_steps import Row, cache_of, ids, plan_of
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pa_cache import PagedReservation
from pa_spec import ContractViolation, StepId

ROWS = 4
RESIDENT = st.integers(0, ROWS - 1)


@dataclass
class Owner:
    """What the model knows of a resident: its blocks in order, and its tokens."""

    request: int
    blocks: list[int] = field(default_factory=list)
    tokens: int = 0

    def copy(self) -> Owner:
        return Owner(self.request, list(self.blocks), self.tokens)


@dataclass
class Pending:
    """A live reservation, and what each of its rows becomes when it is published."""

    step_id: int
    reservation: PagedReservation
    after: dict[int, Owner]
    taken: set[int]
    released: set[int] = field(default_factory=set)


class CacheMachine(RuleBasedStateMachine):
    """Rules are the calls of the cache; the invariant compares everything."""

    @initialize(num_blocks=st.integers(1, 14))
    def start(self, num_blocks: int) -> None:
        self.cache = cache_of(num_blocks, max_batch_size=ROWS)
        self.owners: dict[int, Owner] = {}
        self.pending: list[Pending] = []
        self.quarantine: dict[int, int] = {}
        self.holds: dict[int, int] = {}
        self.requests = self.steps = self.ended = 0

    def projected(self) -> dict[int, Owner]:
        owners = {resident: owner.copy() for resident, owner in self.owners.items()}
        for pending in self.pending:
            after = pending.after.items()
            owners |= {
                resident: owner.copy()
                for resident, owner in after
                if resident not in pending.released
            }
        return owners

    def holders(self) -> dict[int, int]:
        count = dict(self.holds)
        for owner in self.owners.values():
            for block in owner.blocks:
                count[block] = count.get(block, 0) + 1
        return count

    @rule(rows=st.dictionaries(RESIDENT, st.integers(1, 40), max_size=ROWS))
    def reserve(self, rows: dict[int, int]) -> None:
        owners = self.projected()
        voided = {each for pending in self.pending for each in pending.released}
        plan, after = [], {}
        for resident, tokens in rows.items():
            if resident in voided:
                continue  # An engine plans such a row again only after the step is gone.
            is_new = resident not in owners
            self.requests += is_new
            owner = owners.get(resident, Owner(self.requests))
            plan.append(Row(resident, owner.request, owner.tokens, tokens, is_new))
            after[resident] = owner
        free = self.cache.usage.free
        grown = {row.resident: -(-row.target // 16) for row in plan}
        growth = sum(max(0, grown[each] - len(after[each].blocks)) for each in after)
        too_wide = any(blocks > self.cache.geometry.table_columns for blocks in grown.values())
        self.steps += 1
        try:
            reservation = self.cache.reserve(StepId(self.steps), plan_of(plan))
        except ContractViolation:
            assert growth > free or too_wide
            return
        assert growth <= free
        assert not too_wide
        table = reservation.table
        for resident, block in zip(table.resident.tolist(), table.block_id.tolist(), strict=True):
            after[resident].blocks.append(block)
        for row in plan:
            after[row.resident].tokens = row.target
        taken = set(table.block_id.tolist())
        self.pending.append(Pending(self.steps, reservation, after, taken))

    def is_valid(self, pending: Pending) -> bool:
        """Whether no row was released, and nothing that the step writes has another holder."""
        if pending.released:
            return False
        count = self.holders()
        for resident, owner in pending.after.items():
            first = self.owners[resident].tokens if resident in self.owners else 0
            written = owner.blocks[first // 16 : (owner.tokens - 1) // 16 + 1]
            if any(count.get(block, 0) > 1 for block in written):
                return False
        return True

    @precondition(lambda self: self.pending)
    @rule()
    def publish(self) -> None:
        pending = self.pending[0]
        valid = self.is_valid(pending)
        found = pending.reservation.validate()
        assert (found == []) == valid, found
        if not valid:
            return
        pending.reservation.prepare()
        pending.reservation.publish()
        self.owners |= pending.after
        self.pending.pop(0)

    @precondition(lambda self: self.pending)
    @rule(choice=st.integers(0, 9))
    def discard(self, choice: int) -> None:
        place = choice % len(self.pending)
        self.pending[place].reservation.discard()
        del self.pending[place:]

    @precondition(lambda self: self.owners)
    @rule(choice=st.integers(0, 9), lag=st.integers(0, 2), keep=st.none() | st.integers(0, 99))
    def release(self, choice: int, lag: int, keep: int | None) -> None:
        resident = sorted(self.owners)[choice % len(self.owners)]
        owner = self.owners[resident]
        last_step = self.steps - lag
        if keep is None:
            gone = owner.blocks
            del self.owners[resident]
        else:
            owner.tokens = min(owner.tokens, keep)
            kept = -(-keep // 16)
            gone, owner.blocks = owner.blocks[kept:], owner.blocks[:kept]
        for pending in self.pending:
            if resident in pending.after:
                pending.released.add(resident)
        kept_tokens = None if keep is None else np.array([keep])
        self.cache.release(ids(resident), StepId(last_step), kept_tokens)
        self.let_go(gone, last_step)

    def let_go(self, blocks: list[int], last_step: int) -> None:
        count = self.holders()
        for block in blocks:
            if not count.get(block) and last_step > self.ended:
                self.quarantine[block] = last_step

    @precondition(lambda self: self.owners)
    @rule(choice=st.integers(0, 99), times=st.integers(1, 2))
    def share(self, choice: int, times: int) -> None:
        committed = sorted(self.holders())
        if committed:
            block = committed[choice % len(committed)]
            self.cache.share(ids(*[block] * times))
            self.holds[block] = self.holds.get(block, 0) + times

    @precondition(lambda self: self.holds)
    @rule(choice=st.integers(0, 99), lag=st.integers(0, 2))
    def unshare(self, choice: int, lag: int) -> None:
        block = sorted(self.holds)[choice % len(self.holds)]
        times = self.holds.pop(block)
        self.cache.unshare(ids(*[block] * times), StepId(self.steps - lag))
        self.let_go([block], self.steps - lag)

    @rule(lag=st.integers(0, 3))
    def end_step(self, lag: int) -> None:
        step_id = self.steps - lag
        self.cache.end_step(StepId(step_id))
        self.ended = max(self.ended, step_id)
        waiting = self.quarantine.items()
        self.quarantine = {block: step for block, step in waiting if step > self.ended}

    @invariant()
    def every_block_is_where_the_model_has_it(self) -> None:
        if not hasattr(self, "cache"):
            return
        snapshot, usage = self.cache.audit.snapshot(), self.cache.usage
        count = self.holders()
        reserved = [block for pending in self.pending for block in pending.taken]
        assert {each: n for each, n in enumerate(snapshot.reference_count.tolist()) if n} == count
        assert dict(snapshot.quarantine.tolist()) == self.quarantine
        assert set(snapshot.free.tolist()) == set(range(usage.total)) - {*count, *self.quarantine}
        assert len(set(reserved)) == len(reserved)
        assert (usage.committed, usage.reserved) == (
            len(count),
            len(reserved) + len(self.quarantine),
        )
        for resident in range(ROWS):
            owner = self.owners.get(resident, Owner(-1))
            assert snapshot.request[resident] == owner.request
            assert snapshot.table_of(resident).tolist() == owner.blocks
            assert snapshot.committed_tokens[resident] == owner.tokens

    @invariant()
    def no_check_fails(self) -> None:
        if hasattr(self, "cache"):
            assert self.cache.audit.check_all() == []
