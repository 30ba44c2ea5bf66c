"""The packer against one that is written with lists and dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import StepPacker
from pa_engine.executors.packing import RING_BUFFERS
from pa_spec import Int32Array, StepLimits, StepWork
from step_plans import Row, step_work

RESIDENTS, COLUMNS = 5, 9
LIMITS = StepLimits(max_batch_size=RESIDENTS, max_scheduled_tokens=64)


@dataclass
class NaivePacker:
    """Last tokens and block tables by resident, in dictionaries."""

    last: dict[int, int] = field(default_factory=dict)
    table: dict[tuple[int, int], int] = field(default_factory=dict)

    def pack(self, work: StepWork, rows: list[Row]) -> dict[str, list[int]]:
        """Return what a packed step must hold, by its name."""
        delta = work.table
        for owner, column, block in zip(delta.resident, delta.column, delta.block_id, strict=True):
            self.table[int(owner), int(column)] = int(block)
        ids, cumulative, wanted = [], [0], []
        for row in rows:
            ids += [self.last.get(row.resident, 0) if each < 0 else each for each in row.ids]
            cumulative.append(len(ids))
            wanted += [len(ids) - 1] if row.samples else []
        longest = max(row.past + len(row.ids) for row in rows)
        return {
            "input_ids": ids,
            "cumulative_sequence_length": cumulative,
            "past_seqlens": [row.past for row in rows],
            "resident": [row.resident for row in rows],
            "logits_rows": wanted,
            "sampling_resident": [row.resident for row in rows if row.samples],
            "attention_metadata": [max(len(row.ids) for row in rows), longest, longest],
        }

    def rows_of_table(self, rows: list[Row], columns: int) -> list[list[int]]:
        """Return the block-table rows of a step; -1 where nothing was ever reserved."""
        return [
            [self.table.get((row.resident, column), -1) for column in range(columns)]
            for row in rows
        ]


@st.composite
def _row(draw: st.DrawFn, resident: int) -> Row:
    if draw(st.booleans()):
        return Row(resident, draw(st.integers(1, 900)), (-1,))
    ids = draw(st.lists(st.integers(0, 500), min_size=1, max_size=7))
    return Row(resident, draw(st.integers(0, 900)), tuple(ids), draw(st.booleans()))


@st.composite
def _step(draw: st.DrawFn) -> tuple[list[Row], list[tuple[int, int, int]], list[int]]:
    """Rows in any order, reserved entries, and what will be sampled."""
    residents = draw(st.lists(st.integers(0, RESIDENTS - 1), min_size=1, unique=True))
    rows = [draw(_row(resident)) for resident in residents]
    places = st.tuples(st.sampled_from(residents), st.integers(0, COLUMNS - 1))
    entries = draw(st.dictionaries(places, st.integers(0, 10**6), max_size=9))
    sampled = [draw(st.integers(0, 500)) for row in rows if row.samples]
    return rows, [(*place, block) for place, block in entries.items()], sampled


@given(st.lists(_step(), min_size=1, max_size=8), st.integers(1, COLUMNS))
@pytest.mark.spec("E51", "E62", "E67", "E68", "E69", "E72")
def test_every_step_packs_what_the_naive_packer_packs(
    steps: list[tuple[list[Row], list[tuple[int, int, int]], list[int]]], columns: int
) -> None:
    packer, naive = StepPacker(LIMITS, COLUMNS, "cpu"), NaivePacker()
    for rows, entries, sampled in steps:
        work = step_work(rows, entries)
        packed = packer.pack(work)

        expected = naive.pack(work, rows)
        for name, values in expected.items():
            assert getattr(packed, name).tolist() == values, name
        table = packer.block_table(packed, columns)
        assert table.tolist() == naive.rows_of_table(rows, columns)

        packer.remember_host(packed, np.array(sampled, np.int32))
        sampling = [row.resident for row in rows if row.samples]
        naive.last.update(zip(sampling, sampled, strict=True))


def test_everything_on_the_device_is_int32_and_metadata_is_on_the_host() -> None:
    packer = StepPacker(LIMITS, COLUMNS, "cpu")

    packed = packer.pack(step_work([Row(0, 0, (1, 2, 3))], [(0, 0, 7)]))

    kinds = {
        packed.input_ids.dtype,
        packed.cumulative_sequence_length.dtype,
        packed.past_seqlens.dtype,
        packed.logits_rows.dtype,
        packed.attention_metadata.dtype,
        packer.block_table(packed, 2).dtype,
    }
    assert {str(kind) for kind in kinds} == {"torch.int32"}
    assert packed.attention_metadata.device.type == "cpu"


def _work(first: int, count: int) -> StepWork:
    return step_work([Row(0, 0, tuple(range(first, first + count)))])


@pytest.mark.parametrize("count", [4096, 5000, 40_000])
def test_a_step_larger_than_the_buffer_makes_it_grow(count: int) -> None:
    packer = StepPacker(StepLimits(1, count), COLUMNS, "cpu")

    packed = packer.pack(_work(0, count))

    assert packed.input_ids.tolist() == list(range(count))
    assert packed.cumulative_sequence_length.tolist() == [0, count]


@pytest.mark.parametrize("later", [3, 5000])
def test_a_packed_step_stays_valid_until_the_ring_comes_round(later: int) -> None:
    packer = StepPacker(StepLimits(1, 10_000), COLUMNS, "cpu")
    first = packer.pack(_work(100, 3))
    past = first.past_seqlens.clone()

    for step in range(1, RING_BUFFERS):
        packer.pack(_work(200 * step, later))

    assert first.cumulative_sequence_length.tolist() == [0, 3]
    assert first.past_seqlens.tolist() == past.tolist()
    assert first.logits_rows.tolist() == [2]


def test_the_ring_reuses_its_buffers() -> None:
    packer = StepPacker(LIMITS, COLUMNS, "cpu")
    first = packer.pack(_work(10, 3)).cumulative_sequence_length.data_ptr()

    around = [
        packer.pack(_work(10, 3)).cumulative_sequence_length.data_ptr() for _ in range(RING_BUFFERS)
    ]

    assert around[-1] == first
    assert len(set(around)) == RING_BUFFERS


def test_entries_of_a_discarded_step_are_overwritten_by_the_next() -> None:
    packer = StepPacker(LIMITS, COLUMNS, "cpu")
    row = Row(2, 0, (1, 2))
    packer.pack(step_work([row], [(2, 0, 40), (2, 1, 41)]))

    packed = packer.pack(step_work([row], [(2, 0, 50)]))

    assert packer.block_table(packed, 1).tolist() == [[50]]


def test_a_row_that_samples_nothing_keeps_the_device_token_of_its_resident() -> None:
    packer = StepPacker(LIMITS, COLUMNS, "cpu")
    sampled = packer.pack(step_work([Row(1, 0, (1, 2))]))
    packer.remember_host(sampled, np.array([77], np.int32))

    nothing: Int32Array = np.zeros(0, np.int32)
    packer.remember_host(packer.pack(step_work([Row(1, 2, (5, 6), samples=False)])), nothing)

    assert packer.pack(step_work([Row(1, 4, (-1,))])).input_ids.tolist() == [77]
