"""What comes before attention, by hand: packed rows, QK-norm, rotary pairs, slots and tables.

The numbers that a cache holds are compared as they are stored; where the arithmetic is exact in
every element type they must be equal.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import torch
from every_backend import Kernel, int32
from hand_call import LN2, LN3, HandCall, Token, Tokens, by_hand, hand_call, packed
from pa_kernels.testing import expect_close


def packed_row(dtype: torch.dtype) -> HandCall:
    tokens = Tokens(
        query=[[[1], [0, 1]]],
        key=[[[LN3, LN2]], [[0, 0, 5]]],
        value=[[[12]], [[0, 12]]],
    )
    return packed(hand_call(dtype, tokens))


@by_hand(packed_row)
def test_packed_rows_are_query_heads_then_key_then_value(call: HandCall, kernel: Kernel) -> None:
    # Head 0 has logits ln 3 and 0: 3/4 and 1/4 of 12. Head 1 ln 2 and 0: thirds.
    assert call.inputs.query.shape == (1, 32)
    call.expect(kernel, [[9, 3], [8, 4]])
    assert call.stored("key_cache", 1) == [0, 0, 5, 0, 0, 0, 0, 0]
    assert call.stored("value_cache", 1) == [0, 12, 0, 0, 0, 0, 0, 0]


def normed(dtype: torch.dtype) -> HandCall:
    tokens = Tokens(
        query=[[[4, 4]]],
        key=[[[0, 1]], [[0, 4, 4]]],
        value=[[[8]], [[0, 8]]],
    )
    gains = {
        "q_norm_weight": torch.tensor([0.75, 1.5] + [3.0] * 6, dtype=dtype),
        "k_norm_weight": torch.tensor([9, 0.375, 0.75] + [3.0] * 5, dtype=dtype),
    }
    return hand_call(dtype, tokens, qk_norm_epsilon=5.0, scale=LN3, **gains)


@by_hand(normed)
def test_qk_norm(call: HandCall, kernel: Kernel) -> None:
    # Query and new key: mean of squares (16 + 16) / 8 = 4, with epsilon 9, so 4 / 3 each.
    # Query [4/3 * 3/4, 4/3 * 3/2] = [1, 2]; key [0, 4/3 * 3/8, 4/3 * 3/4] = [0, 1/2, 1].
    # Logits 2 ln 3 (the cached key is not normed again) and 2 * 1/2 ln 3 = ln 3: weights 9 and 3.
    # Epsilon outside the root would divide by 2 + 5, exchanged gains store [0, 2, 4].
    call.expect(kernel, [[6, 2]])
    stored = torch.tensor(call.stored("key_cache", 1))
    expect_close(stored, torch.tensor([0, 0.5, 1, 0, 0, 0, 0, 0]), call.inputs.query.dtype)
    assert call.stored("value_cache", 1)[1] == 8


def tables(dtype: torch.dtype, **row: list[float]) -> dict[str, torch.Tensor]:
    """Rotary tables of four positions, all of them identity but position 2."""
    made = {}
    for name, other in (("cos_cache", 1.0), ("sin_cache", 0.0)):
        table = torch.full((4, len(row[name])), other, dtype=torch.float64)
        table[2] = torch.tensor(row[name])
        made[name] = table.to(dtype)
    return made


TURNED = [5.0, 10, 15, 20, 25, 30, 35, 40]


def rotated(dtype: torch.dtype, **given: int) -> HandCall:
    """Two pairs turn at position 2: by (5/8, 3/4), exact everywhere, and by a right angle."""
    rows = tables(dtype, cos_cache=[0.625, 0], sin_cache=[0.75, 1])
    old = [[0] * 8]
    tokens = Tokens([[[0]]], [old, old, [TURNED]], [old, old, old])
    return hand_call(dtype, tokens, do_rotary=1, **rows, **given)


@by_hand(rotated)
def test_rotary_halves(call: HandCall, kernel: Kernel) -> None:
    # Pairs (0, 2) and (1, 3): 5 * 5/8 - 15 * 3/4 = -8.125 and 15 * 5/8 + 5 * 3/4 = 13.125;
    # at the right angle (10, 20) becomes (-20, 10). Channels from 4 on are beyond the 4 that turn.
    call.run(kernel)
    assert call.stored("key_cache", 2) == [-8.125, -20, 13.125, 10, 25, 30, 35, 40]


def interleaved(dtype: torch.dtype) -> HandCall:
    return rotated(dtype, rotary_interleaved=1)


@by_hand(interleaved)
def test_rotary_interleaved(call: HandCall, kernel: Kernel) -> None:
    # Pairs (0, 1) and (2, 3): 5 * 5/8 - 10 * 3/4 = -4.375 and 10 * 5/8 + 5 * 3/4 = 10;
    # (15, 20) becomes (-20, 15).
    call.run(kernel)
    assert call.stored("key_cache", 2) == [-4.375, 10, -20, 15, 25, 30, 35, 40]


def offset_halves(dtype: torch.dtype) -> HandCall:
    rows = tables(dtype, cos_cache=[0.625, 0], sin_cache=[0.75, 1])
    old = [[0] * 16]
    key = [[9.0] * 8 + TURNED]
    tokens = Tokens([[[0]]], [old, old, key], [old, old, old], size=16)
    return hand_call(dtype, tokens, do_rotary=1, rotary_offset=8, **rows)


@by_hand(offset_halves)
def test_rotary_offset(call: HandCall, kernel: Kernel) -> None:
    # As in halves, eight channels later: pairs (8, 10) and (9, 11).
    call.run(kernel)
    turned = [-8.125, -20, 13.125, 10, 25, 30, 35, 40]
    assert call.stored("key_cache", 2) == [9.0] * 8 + turned


def turned_query(dtype: torch.dtype) -> HandCall:
    rows = tables(dtype, cos_cache=[0] * 4, sin_cache=[1] * 4)
    value = [[[12]], [[0, 12]], [[0, 0, 12]]]
    key: list[Token] = [[[LN2, 0, 0, 0, LN3]], [[0]], [[0]]]
    return hand_call(dtype, Tokens([[[1]]], key, value), do_rotary=1, **rows)


@by_hand(turned_query)
def test_queries_turn_and_cached_keys_do_not_turn_again(call: HandCall, kernel: Kernel) -> None:
    # A right angle at position 2: the query (1, 0) of channels (0, 4) becomes (0, 1) and meets
    # ln 3 of the cached key: weights 3, 1, 1 of 5. Unturned it met ln 2 (2, 1, 1: 6, 3, 3); a key
    # that turned again would give -ln 3 or -ln 2.
    call.expect(kernel, [[7.2, 2.4, 2.4]])


def normed_and_turned(dtype: torch.dtype) -> HandCall:
    rows = tables(dtype, cos_cache=[0] * 4, sin_cache=[1] * 4)
    old: Token = [[0]]
    key: Token = [[4, 0, 0, 0, 4]]
    gains = {
        "q_norm_weight": torch.ones(8, dtype=dtype),
        "k_norm_weight": torch.tensor([0.75, 1, 1, 1, 1.5, 1, 1, 1], dtype=dtype),
    }
    tokens = Tokens([[[0]]], [old, old, key], [old, old, old])
    return hand_call(dtype, tokens, do_rotary=1, qk_norm_epsilon=5.0, **rows, **gains)


@by_hand(normed_and_turned)
def test_the_norm_comes_before_the_rotation(call: HandCall, kernel: Kernel) -> None:
    # 4 / sqrt(4 + 5) = 4/3; with the gains (1, 2); at a right angle (-2, 1).
    # Turned first: (-4, 4), then gains: (-1, 2).
    call.run(kernel)
    stored = torch.tensor(call.stored("key_cache", 2))
    expect_close(stored, torch.tensor([-2.0, 0, 0, 0, 1, 0, 0, 0]), call.inputs.query.dtype)


def positioned(dtype: torch.dtype) -> HandCall:
    call = rotated(dtype)
    lengths = {"past_seqlens": int32(1), "query_positions": int32(2)}
    return replace(call, inputs=replace(call.inputs, **lengths))


@by_hand(positioned)
def test_query_positions_choose_the_rotation_and_not_the_slot(
    call: HandCall, kernel: Kernel
) -> None:
    # The key goes to slot 1 (one token is there), turned as position 2 of test_rotary_halves.
    call.run(kernel)
    assert call.stored("key_cache", 1)[:4] == [-8.125, -20, 13.125, 10]
    assert all(isnan(number) for number in call.stored("key_cache", 2))


def unstored(dtype: torch.dtype) -> HandCall:
    # Tokens 1 and 2 are new; slot 1 has been filled by somebody else.
    tokens = Tokens([[[0]]], [[[0]]] * 3, [[[12]], [[0, 12]], [[0, 0, 12]]])
    call = hand_call(dtype, tokens)
    assert call.inputs.value is not None
    # Block 2 of the pool holds positions 0 to 15, so position p has slot 32 + p.
    changed = {
        "query": call.inputs.query.repeat(2, 1),
        "key": torch.ones(2, 8, dtype=dtype),
        "value": torch.full((2, 8), 24, dtype=dtype),
        "cumulative_sequence_length": int32(0, 2),
        "past_seqlens": int32(1),
        "slot_mapping": int32(-1, 34),
    }
    return replace(call, inputs=replace(call.inputs, **changed))


@by_hand(unstored)
def test_a_token_without_a_slot_reads_what_the_cache_holds(call: HandCall, kernel: Kernel) -> None:
    # Token 1 stores nothing and sees slots 0 and 1: halves of 12. Token 2 stores its 24 in slot 34
    # and sees three: 12/3 = 4, 12/3, and 24/3 = 8 in every channel.
    call.expect(kernel, [[6, 6]], [[12, 12, 8, 8, 8, 8, 8, 8]])
    assert call.stored("value_cache", 1) == [0, 12, 0, 0, 0, 0, 0, 0]
    assert call.stored("value_cache", 2) == [24] * 8


def unmapped(dtype: torch.dtype) -> HandCall:
    # Positions 0 to 15 lie in a block that is gone, 16 is in the cache, 17 is new.
    values = [[[96]]] * 16 + [[[8]], [[0, 8]]]
    call = hand_call(dtype, Tokens([[[1]]], [[[LN2]]] * 16 + [[[LN3]], [[0]]], values))
    return replace(call, inputs=replace(call.inputs, block_table=int32(-1, 0)[None]))


@by_hand(unmapped)
def test_an_unmapped_block_is_masked(call: HandCall, kernel: Kernel) -> None:
    # Only 16 and 17 are left: 3/4 and 1/4 of 8. Keys of zeros instead would weigh 16 more.
    call.expect(kernel, [[6, 2]])
    # The first block of the row is block 2 of the pool; it keeps its numbers.
    assert call.inputs.key_cache[2, 0, 0, 0] == torch.tensor(LN2).to(call.inputs.key_cache.dtype)


def unmapped_write(dtype: torch.dtype) -> HandCall:
    call = hand_call(dtype, Tokens([[[0]]], [[[0]]] * 17, [[[4]]] * 16 + [[[64]]]))
    return replace(call, inputs=replace(call.inputs, block_table=int32(2, -1)[None]))


@by_hand(unmapped_write)
def test_a_token_in_an_unmapped_block_is_not_stored_and_not_seen(
    call: HandCall, kernel: Kernel
) -> None:
    # Sixteen keys with 4 are seen; the token's own 64 is not.
    before = call.inputs.value_cache
    assert before is not None
    kept = before.clone()
    call.expect(kernel, [[4]])
    assert torch.equal(before.nan_to_num(99), kept.nan_to_num(99))
