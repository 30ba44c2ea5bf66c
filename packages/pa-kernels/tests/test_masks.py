"""Which keys a query sees, exactly.

Method: queries of zeros weigh all visible keys alike, and the value of position p is the p-th unit
vector, so the output row itself is the mask, divided by the number of visible keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from pa_kernels import prepare, signature_of
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor

BLOCK = 16
POSITIONS = 64
"""Head size, so that every position has its unit vector."""


@dataclass(frozen=True)
class Sequences:
    """Rows whose caches hold the past already; blocks are handed out backwards."""

    inputs: PagedAttentionInputs[Tensor]

    def visible(self, backend: str, **attributes: Any) -> list[list[int]]:
        """Return the positions that each packed token sees."""
        given = PagedAttentionAttributes(num_heads=1, kv_num_heads=1, **attributes)
        call = prepare(signature_of(self.inputs, given), backend)
        output = call.run(self.inputs).output
        seen = []
        for row in output:
            positions = row.nonzero().flatten().tolist()
            if positions:
                torch.testing.assert_close(
                    row[positions], torch.full_like(row[positions], 1 / len(positions))
                )
            seen.append(positions)
        return seen


def sequences(*rows: tuple[int, int], **extra: Tensor) -> Sequences:
    """Build rows of (past, new) tokens."""
    columns = POSITIONS // BLOCK
    num_blocks = columns * len(rows)
    table = torch.arange(num_blocks - 1, -1, -1, dtype=torch.int32).reshape(len(rows), columns)
    units = torch.eye(POSITIONS)
    value_cache = torch.full((num_blocks, BLOCK, 1, POSITIONS), torch.nan)
    key_cache = value_cache.clone()
    for row, (past, _) in enumerate(rows):
        for position in range(past):
            block, offset = int(table[row, position // BLOCK]), position % BLOCK
            value_cache[block, offset, 0] = units[position]
            key_cache[block, offset, 0] = 1.0
    value = torch.cat([units[past : past + new] for past, new in rows])
    boundaries = torch.tensor([0, *(new for _, new in rows)]).cumsum(0).int()
    return Sequences(
        PagedAttentionInputs(
            query=torch.zeros_like(value),
            key=torch.ones_like(value),
            value=value,
            key_cache=key_cache,
            value_cache=value_cache,
            cumulative_sequence_length=boundaries,
            past_seqlens=torch.tensor([past for past, _ in rows], dtype=torch.int32),
            block_table=table,
            **extra,
        )
    )


def window(last: int, tokens: int) -> list[int]:
    return list(range(max(0, last + 1 - tokens), last + 1))


@pytest.mark.spec("E68")
@pytest.mark.parametrize("past", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
@pytest.mark.parametrize("new", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_token_sees_itself_and_everything_before_it(
    host_backend: str, past: int, new: int
) -> None:
    assert sequences((past, new)).visible(host_backend) == [
        list(range(past + j + 1)) for j in range(new)
    ]


@pytest.mark.parametrize("past", [0, BLOCK - 1, 40])
@pytest.mark.parametrize("tokens", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 39, 40, 41, 42, 1000])
def test_a_window_counts_the_current_token(host_backend: str, past: int, tokens: int) -> None:
    seen = sequences((past, 3)).visible(host_backend, local_window_size=tokens)
    assert seen == [window(past + j, tokens) for j in range(3)]


def test_rows_are_ragged_and_may_have_no_tokens(host_backend: str) -> None:
    seen = sequences((5, 0), (0, 2), (20, 0), (17, 1), (3, 0)).visible(host_backend)
    assert seen == [[0], [0, 1], list(range(18))]


@pytest.mark.parametrize("block_id", [-1, -7, 4, 2**31 - 1, -(2**31)])
def test_unmapped_blocks_are_neither_stored_nor_seen(host_backend: str, block_id: int) -> None:
    problem = sequences((20, 13))
    problem.inputs.block_table[0, 1] = block_id
    before = problem.inputs.value_cache.clone() if problem.inputs.value_cache is not None else None

    seen = problem.visible(host_backend)

    mapped = [*range(BLOCK), 32]
    assert seen == [[p for p in mapped if p <= 20 + j] for j in range(13)]
    assert before is not None
    assert problem.inputs.value_cache is not None
    changed = (problem.inputs.value_cache.nan_to_num(9) != before.nan_to_num(9)).flatten(1).any(1)
    assert changed.nonzero().flatten().tolist() == [int(problem.inputs.block_table[0, 2])]


def test_a_row_without_any_block_yields_zeros_and_stores_nothing(host_backend: str) -> None:
    problem = sequences((0, 1), (16, 2))
    problem.inputs.block_table[0] = -1

    seen = problem.visible(host_backend)

    assert seen == [[], list(range(17)), list(range(18))]


@pytest.mark.parametrize("sink", [0.5, torch.inf, -torch.inf, torch.nan])
def test_a_row_without_any_block_yields_zeros_also_beside_a_sink(
    host_backend: str, sink: float
) -> None:
    problem = sequences((0, 3), head_sink=torch.tensor([sink]))
    problem.inputs.block_table[0] = -1

    assert problem.visible(host_backend) == [[], [], []]


@pytest.mark.parametrize("tokens", [5, 16, 17, 33])
def test_blocks_that_the_window_has_left_may_be_unmapped(host_backend: str, tokens: int) -> None:
    whole = sequences((45, 3))
    sparse = sequences((45, 3))
    sparse.inputs.block_table[0, : max(0, 45 - tokens + 1) // BLOCK] = -1

    seen = sparse.visible(host_backend, local_window_size=tokens)

    assert seen == whole.visible(host_backend, local_window_size=tokens)


def test_a_slot_mapping_decides_stores_and_the_table_decides_reads(host_backend: str) -> None:
    # Tokens 1 and 2 of the row stay out of the cache; their slots hold what somebody else stored.
    problem = sequences((0, 4))
    assert problem.inputs.value_cache is not None
    first = int(problem.inputs.block_table[0, 0]) * BLOCK
    for position in (1, 2):
        problem.inputs.value_cache.view(-1, POSITIONS)[first + position] = torch.eye(POSITIONS)[40]
        problem.inputs.key_cache.view(-1, POSITIONS)[first + position] = 0.0
    mapping = torch.tensor([first, -1, -1, first + 3], dtype=torch.int32)
    inputs = replace(problem.inputs, slot_mapping=mapping)

    call = prepare(signature_of(inputs, PagedAttentionAttributes(1, 1)), host_backend)
    output = call.run(inputs).output

    assert output[3].nonzero().flatten().tolist() == [0, 3, 40]
    assert float(output[3, 40]) == pytest.approx(0.5)


@pytest.mark.parametrize("slot", [-2, -(2**31), 4 * BLOCK, 2**31 - 1])
def test_a_slot_outside_the_pool_is_not_written(host_backend: str, slot: int) -> None:
    problem = sequences((4, 1), slot_mapping=torch.tensor([slot], dtype=torch.int32))
    problem.inputs.block_table[0, 0] = 3
    before = problem.inputs.key_cache.clone()

    attributes = PagedAttentionAttributes(num_heads=1, kv_num_heads=1)
    prepare(signature_of(problem.inputs, attributes), host_backend).run(problem.inputs)

    assert torch.equal(problem.inputs.key_cache.nan_to_num(7), before.nan_to_num(7))


def test_a_row_sees_what_another_row_of_the_call_stores_in_a_shared_block(
    host_backend: str,
) -> None:
    # Row 0 stores position 15 of the block that row 1, which comes with 16 past tokens, reads.
    problem = sequences((15, 1), (16, 1))
    problem.inputs.block_table[1, 0] = problem.inputs.block_table[0, 0]

    assert problem.visible(host_backend) == [list(range(16)), list(range(17))]


def test_a_later_row_of_the_call_is_seen_by_an_earlier_one(host_backend: str) -> None:
    problem = sequences((16, 1), (15, 1))
    problem.inputs.block_table[0, 0] = problem.inputs.block_table[1, 0]

    assert problem.visible(host_backend) == [list(range(17)), list(range(16))]


@pytest.mark.spec("V104")
def test_two_tokens_in_one_slot_spoil_nothing_else(host_backend: str) -> None:
    problem = sequences((3, 1), (5, 2))
    own, shared = (int(problem.inputs.block_table[row, 0]) * BLOCK for row in range(2))
    mapping = torch.tensor([own + 3, shared + 5, shared + 5], dtype=torch.int32)
    before = problem.inputs.key_cache.clone()
    inputs = replace(problem.inputs, slot_mapping=mapping)

    call = prepare(signature_of(inputs, PagedAttentionAttributes(1, 1)), host_backend)
    output = call.run(inputs).output

    assert output[0].nonzero().flatten().tolist() == [0, 1, 2, 3]
    changed = (inputs.key_cache.nan_to_num(9) != before.nan_to_num(9)).flatten(0, 1)
    assert changed.flatten(1).any(1).nonzero().flatten().tolist() == sorted([own + 3, shared + 5])


@pytest.mark.spec("V66")
def test_query_positions_move_the_masks_but_not_the_stores(host_backend: str) -> None:
    # Three drafts of one place: all at position 8, the keys of all of them stay in their slots.
    positions = torch.tensor([8, 8, 30], dtype=torch.int32)
    problem = sequences((8, 3), query_positions=positions)

    seen = problem.visible(host_backend)

    # Keys are limited to past + new tokens (0 to 10), whatever the position says.
    assert seen == [list(range(9)), list(range(9)), list(range(11))]
    assert sequences((8, 3), query_positions=positions).visible(
        host_backend, local_window_size=4
    ) == [[5, 6, 7, 8], [5, 6, 7, 8], []]
