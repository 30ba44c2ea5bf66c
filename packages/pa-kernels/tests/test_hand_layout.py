"""Layout by hand: rows, blocks and strides of calls whose numbers a reader can work out.

Queries and keys are 0 unless it is said, so that everything seen weighs alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from every_backend import Kernel, int32
from hand_call import BLOCK, LN3, HandCall, Tokens, by_hand, hand_call, matrix


def with_inputs(call: HandCall, **changes: Any) -> HandCall:
    return replace(call, inputs=replace(call.inputs, **changes))


def one_token(dtype: torch.dtype, past: int, *values: list[float]) -> HandCall:
    """A row with `past` tokens of keys 0; values: of the last tokens, the new one included."""
    zeros = [[[0.0]]] * (past + 1)
    rows = [*zeros[len(values) :], *([value] for value in values)]
    return hand_call(dtype, Tokens([[[0]]], zeros, rows))


def two_rows(call: HandCall, *values: list[float]) -> HandCall:
    """The call's token for each of two rows, with values of their own."""
    return with_inputs(
        call,
        query=call.inputs.query.repeat(2, 1),
        key=torch.zeros(2, 8, dtype=call.inputs.query.dtype),
        value=matrix([[value] for value in values], 8).to(call.inputs.query.dtype),
    )


def shared(dtype: torch.dtype) -> HandCall:
    # Positions 0 to 15 of both rows lie in block 2; position 16 is in block 0 and in block 1.
    call = two_rows(one_token(dtype, 16, [17], [0]), [0, 17], [0, 0, 34])
    return with_inputs(
        call,
        cumulative_sequence_length=int32(0, 1, 2),
        past_seqlens=int32(16, 16),
        block_table=torch.stack([int32(2, 0), int32(2, 1)]),
    )


@by_hand(shared)
def test_rows_share_a_prefix(call: HandCall, kernel: Kernel) -> None:
    # Each sees 17 tokens: the 17 of position 15, which both have, and its own new one.
    call.expect(kernel, [[1, 1]], [[1, 0, 2]])


def gaps(dtype: torch.dtype) -> HandCall:
    # Rows 0, 2 and 4 bring no tokens; rows 1 and 3 have pasts of 1 and 0.
    call = two_rows(one_token(dtype, 1, [12], [0]), [0, 12], [0, 0, 7])
    table = torch.stack([int32(-1, 5), int32(2, -1), int32(-1, -1), int32(1, -1), int32(2, 0)])
    return with_inputs(
        call,
        cumulative_sequence_length=int32(0, 0, 1, 1, 2, 2),
        past_seqlens=int32(31, 1, 0, 0, 20),
        block_table=table,
    )


@by_hand(gaps)
def test_rows_without_tokens(call: HandCall, kernel: Kernel) -> None:
    # Row 1 sees its two: halves of 12. Row 3 sees its own token alone.
    call.expect(kernel, [[6, 6]], [[0, 0, 7]])


def nothing(dtype: torch.dtype) -> HandCall:
    call = one_token(dtype, 3, [12], [5])
    names = ("query", "key", "value")
    empty = {name: getattr(call.inputs, name)[:0] for name in names}
    return with_inputs(call, **empty, cumulative_sequence_length=int32(0, 0))


@by_hand(nothing)
def test_no_tokens_at_all(call: HandCall, kernel: Kernel) -> None:
    assert call.run(kernel).output.shape == (0, 8)
    assert call.stored("value_cache", 2)[:2] == [12, 0]
    assert call.stored("value_cache", 3)[0] != 5


def bounded(dtype: torch.dtype) -> HandCall:
    return one_token(dtype, 2, [12], [0, 12], [0, 0, 12])


@by_hand(bounded)
def test_metadata_bounds_nothing_but_work(call: HandCall, kernel: Kernel) -> None:
    # Thirds of 12, whether the bounds say nothing, the lengths themselves, or far more.
    for bounds in ((0, 0, 0), (1, 3, 3), (1, 3), (40, 4000, 1)):
        with_inputs(call, attention_metadata=int32(*bounds)).expect(kernel, [[4, 4, 4]])


def slices(dtype: torch.dtype) -> HandCall:
    # Query, key and value of two tokens are columns of one matrix, with 99 between them.
    values = [[[12]], [[0, 12]]]
    call = hand_call(dtype, Tokens([[[1]], [[1]]], [[[0]], [[LN3]]], values))
    whole = torch.full((2, 40), 99, dtype=dtype)
    parts = {"query": whole[:, :8], "key": whole[:, 16:24], "value": whole[:, 32:]}
    for name, part in parts.items():
        part.copy_(getattr(call.inputs, name))
    return with_inputs(call, **parts)


@by_hand(slices)
def test_rows_that_are_slices_of_wider_rows(call: HandCall, kernel: Kernel) -> None:
    # The first token sees itself. The second: weights 1 and 3 of 4, 3 and 9 of the twelves.
    call.expect(kernel, [[12]], [[3, 9]])


def large_blocks(dtype: torch.dtype) -> HandCall:
    # Blocks of 32: position 31 is the last slot of block 1, position 32 the first one of block 0.
    call = one_token(dtype, 0, [0, 33])
    caches = {name: torch.zeros(2, 32, 1, 8, dtype=dtype) for name in ("key_cache", "value_cache")}
    caches["value_cache"][1, 31] = 33
    table = int32(1, 0)[None]
    return with_inputs(call, **caches, past_seqlens=int32(32), block_table=table)


@by_hand(large_blocks)
def test_blocks_of_32(call: HandCall, kernel: Kernel) -> None:
    # 33 tokens are seen: 33 in all channels at position 31, and (0, 33) of the new one.
    call.expect(kernel, [[1, 2, 1, 1, 1, 1, 1, 1]])
    assert call.inputs.value_cache is not None
    assert call.inputs.value_cache[0, 0, 0].tolist() == [0, 33, 0, 0, 0, 0, 0, 0]


def odd_size(dtype: torch.dtype) -> HandCall:
    last = [0.0] * 23
    return hand_call(
        dtype,
        Tokens([[[*last, 1]]], [[[*last, LN3]], [[0]]], [[[*last, 8]], [[0, 8]]], size=24),
    )


@by_hand(odd_size)
def test_the_last_channel_of_a_head_of_24(call: HandCall, kernel: Kernel) -> None:
    # Weights 3 and 1 of 4, from channel 23 alone.
    call.expect(kernel, [[0, 2, *[0] * 21, 6]])


def ring(dtype: torch.dtype) -> HandCall:
    # W = 16 needs ceil(16/16) + 1 = 2 blocks: 2 had positions 0 to 15, 0 has 16 to 31, and
    # position 32 is in block 2 again. The values at 16 and before are beyond the window.
    call = one_token(dtype, 31, [99], [16], *[[0.0]] * 13, [0])
    call = with_inputs(
        call,
        value=matrix([[[0, 32]]], 8).to(dtype),
        past_seqlens=int32(32),
        block_table=int32(-1, 0, 2)[None],
        slot_mapping=int32(2 * BLOCK),
    )
    for name in ("key_cache", "value_cache"):
        # Position 31, which the builder has left for the new token.
        getattr(call.inputs, name)[0, 15] = 0
    return replace(call, attributes=replace(call.attributes, local_window_size=16))


@by_hand(ring)
def test_a_rolling_cache_writes_where_the_window_has_left(call: HandCall, kernel: Kernel) -> None:
    # Positions 17 to 32: a sixteenth of 16, and of 32. Position 16 would add 99/16.
    call.expect(kernel, [[1, 2]])
    assert call.stored("value_cache", 32)[:2] == [0, 32]
