"""Every small step: the array code plans exactly what the row-by-row model plans.

All sequences of up to three residents (a decode, a prompt nearly read, a fresh prompt), up to two
waiting requests, every subset that a cache might select, every budget that holds the subset and a
little more, and chunk limits of none, 1 and 3. Drafts have a smaller product of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pytest
from naive_policy import Limits, Row, ordered, packed
from pa_scheduler import DecodeFirstPolicy
from policy_views import admit, as_packed, resident_view, step_limits, waiting_view

RESIDENT_KINDS = ((9, 10, 4), (8, 10, 10), (2, 6, 6))  # committed, sequence, prompt
WAITING_PROMPTS = (1, 3)
# Columns: committed, sequence, prompt, drafts.
DRAFTING_KINDS = ((9, 10, 9, 0), (9, 10, 9, 3), (14, 15, 9, 3), (3, 6, 6, 2))


def _residents() -> Iterator[list[Row]]:
    for count in range(4):
        for kinds in product(RESIDENT_KINDS, repeat=count):
            yield [
                Row(10 + place, place, committed, sequence, prompt, sequence + 8)
                for place, (committed, sequence, prompt) in enumerate(kinds)
            ]


def _waiting() -> Iterator[list[Row]]:
    for count in range(3):
        for prompts in product(WAITING_PROMPTS, repeat=count):
            yield [
                Row(50 + place, None, 0, prompt, prompt, prompt + 8)
                for place, prompt in enumerate(prompts)
            ]


def _subsets(count: int) -> Iterator[Sequence[int]]:
    for size in range(count + 1):
        yield from combinations(range(count), size)


@pytest.mark.spec("E41", "E42", "E43", "E50", "E51", "E28")
def test_every_small_step_is_packed_as_the_model_packs_it() -> None:
    policy = DecodeFirstPolicy(16)
    compared = 0

    for residents, waiting in product(list(_residents()), list(_waiting())):
        candidates = policy.order(resident_view(residents), waiting_view(waiting))
        expected_order = ordered(residents, waiting)
        assert candidates.request.tolist() == [row.request for row in expected_order]
        for selected in _subsets(len(expected_order)):
            rows = [expected_order[each] for each in selected]
            admission = admit(candidates, selected)
            for more, chunk in product((0, 1, 2, 4, 9), (0, 1, 3)):
                limits = Limits(len(rows) + more, chunk)
                plan = policy.pack(candidates, admission, step_limits(limits))
                assert as_packed(plan) == packed(rows, limits), (rows, limits)
                compared += 1

    assert compared > 40_000


@pytest.mark.spec("E54")
def test_every_small_step_with_drafts_is_packed_as_the_model_packs_it() -> None:
    policy = DecodeFirstPolicy(16)

    for kinds in product(DRAFTING_KINDS, repeat=3):
        for more, room in product(range(8), (0, 1, 9)):
            residents = [
                Row(10 + place, place, committed, sequence, prompt, sequence + room, drafts)
                for place, (committed, sequence, prompt, drafts) in enumerate(kinds)
            ]
            candidates = policy.order(resident_view(residents), waiting_view([]))
            limits = Limits(3 + more)
            plan = policy.pack(candidates, admit(candidates, range(3)), step_limits(limits))
            assert as_packed(plan) == packed(ordered(residents, []), limits)
