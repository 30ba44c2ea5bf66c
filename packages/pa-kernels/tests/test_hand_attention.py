"""Attention by hand: for each feature one call whose numbers a reader can work out.

Every query or key below has its number in channel 0 unless more are written, so a logit is one
product. The numbers are such that a slip of one (a position, a head, a sign) moves an output by far
more than any tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import torch
from every_backend import Kernel
from hand_call import LN2, LN3, LN4, LN5, LN7, HandCall, Tokens, by_hand, hand_call
from pa_kernels.testing import expect_close


def plain(dtype: torch.dtype) -> HandCall:
    tokens = Tokens(
        query=[[[4]]],
        key=[[[LN3]], [[0]]],
        value=[[[8]], [[0, 4]]],
        size=16,
    )
    return hand_call(dtype, tokens, scale=0.0)


@by_hand(plain)
def test_plain_attention(call: HandCall, kernel: Kernel) -> None:
    # No scale is given: 1 / sqrt(16) = 1/4. Logits 4 ln 3 / 4 = ln 3 and 0; weights 3 and 1 of 4.
    # 3/4 * 8 = 6 and 1/4 * 4 = 1.
    call.expect(kernel, [[6, 1]])
    assert call.stored("value_cache", 1)[:3] == [0, 4, 0]


def scaled(dtype: torch.dtype) -> HandCall:
    return hand_call(dtype, Tokens([[[2]]], [[[LN2]], [[0]]], [[[9]], [[0, 9]]]), scale=0.5)


@by_hand(scaled)
def test_scale(call: HandCall, kernel: Kernel) -> None:
    # 2 ln 2 / 2 = ln 2: weights 2 and 1 of 3. Without the scale they were 4 and 1 of 5.
    call.expect(kernel, [[6, 3]])


def causal(dtype: torch.dtype) -> HandCall:
    values = [[[12]], [[0, 12]], [[0, 0, 12]]]
    return hand_call(dtype, Tokens([[[0]], [[0]]], [[[0]]] * 3, values))


@by_hand(causal)
def test_causal_edge(call: HandCall, kernel: Kernel) -> None:
    # Queries of 0 weigh alike. Position 1 sees 0 and 1: halves of 12. Position 2 sees all: thirds.
    # One more key for the first would give thirds, one less for the second halves.
    call.expect(kernel, [[6, 6]], [[4, 4, 4]])


def window(dtype: torch.dtype) -> HandCall:
    values = [[[0] * position + [12]] for position in range(6)]
    tokens = Tokens([[[0]], [[0]]], [[[0]]] * 6, values)
    return hand_call(dtype, tokens, local_window_size=3)


@by_hand(window)
def test_window_edge(call: HandCall, kernel: Kernel) -> None:
    # W = 3 counts the query's own position and W - 1 = 2 before it: 2, 3, 4 and 3, 4, 5.
    # W + 1 would give threes, W - 1 sixes.
    call.expect(kernel, [[0, 0, 4, 4, 4]], [[0, 0, 0, 4, 4, 4]])


def sinks(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[1], [0]]], [[[LN3]], [[0]]], [[[8]], [[0, 8]]])
    return hand_call(dtype, tokens, head_sink=torch.tensor([LN4, LN2 + LN3], dtype=dtype))


@by_hand(sinks)
def test_head_sink(call: HandCall, kernel: Kernel) -> None:
    # Head 0: weights 3 and 1, sink 4, of 8: 3/8 * 8 = 3 and 1/8 * 8 = 1.
    # Head 1: weights 1 and 1, sink 6, of 8: 1 and 1.
    # A sink that counted in the numerator would give head 0 a 7 (3 + 4) or a 5 (1 + 4); without it
    # 6 and 2; exchanged sinks 24/10 and 8/10.
    call.expect(kernel, [[3, 1], [1, 1]])


def softcapped(dtype: torch.dtype) -> HandCall:
    # tanh(ln 4) = (4 - 1/4) / (4 + 1/4) = 15/17.
    softcap = 17 / 15 * LN3
    tokens = Tokens([[[2]]], [[[softcap * LN4]], [[0]]], [[[8]], [[0, 8]]])
    return hand_call(dtype, tokens, softcap=softcap, scale=0.5)


@by_hand(softcapped)
def test_softcap(call: HandCall, kernel: Kernel) -> None:
    # c = 17/15 ln 3. The scaled logit is c ln 4; c tanh(c ln 4 / c) = c * 15/17 = ln 3.
    # Weights 3 and 1 of 4. Uncapped exp(1.245 * 1.386) = 5.6; capped before the scale it is
    # c tanh(2 ln 4) / 2 = 0.62 and exp(0.62) = 1.9.
    call.expect(kernel, [[6, 2]])


def grouped(dtype: torch.dtype) -> HandCall:
    tokens = Tokens(
        query=[[[1], [0], [1], [0]]],
        key=[[[LN3], [-LN3]], [[0], [0]]],
        value=[[[8], [0, 0, 16]], [[0, 8], [0, 0, 0, 16]]],
    )
    return hand_call(dtype, tokens)


@by_hand(grouped)
def test_query_heads_share_kv_heads_in_order(call: HandCall, kernel: Kernel) -> None:
    # Heads 0 and 1 read KV head 0, heads 2 and 3 KV head 1. Logits ln 3 and 0: 3/4 and 1/4 of 8;
    # 0 and 0: halves; -ln 3 and 0: weights 1/3 and 1, so 1/4 and 3/4 of 16; halves.
    # Heads that alternated (0, 2 and 1, 3) would give head 1 values in channels 2 and 3.
    call.expect(kernel, [[6, 2], [4, 4], [0, 0, 4, 12], [0, 0, 8, 8]])


def latent(dtype: torch.dtype) -> HandCall:
    past = [8] + [0] * 7 + [LN3]
    own = [0, 4] + [0] * 7 + [5]
    tokens = Tokens([[[0] * 8 + [1], [0] * 8 + [2]]], [[past], [own]], size=16)
    return hand_call(dtype, tokens, kv_cache_layout="LATENT", v_head_size=8)


@by_hand(latent)
def test_latent_values_are_the_leading_channels_of_the_keys(call: HandCall, kernel: Kernel) -> None:
    # Logits: channel 8 alone. Head 0: ln 3 and 0, head 1: 2 ln 3 = ln 9 and 0. Values: channels
    # 0 to 7 of the same rows, [8, 0] and [0, 4].
    # 3/4 * 8 = 6, 1/4 * 4 = 1; 9/10 * 8 = 7.2, 1/10 * 4 = 0.4.
    # Trailing channels would give 3/4 ln 3 and 5/4.
    call.expect(kernel, [[6, 1], [7.2, 0.4]])
    assert call.stored("key_cache", 1)[:2] == [0, 4]
    assert call.stored("key_cache", 1)[9] == 5


def positions(dtype: torch.dtype) -> HandCall:
    values = [[[0] * position + [12]] for position in range(5)]
    tokens = Tokens([[[0]]] * 3, [[[0]]] * 5, values)
    where = torch.tensor([2, 2, 9], dtype=torch.int32)
    return hand_call(dtype, tokens, query_positions=where)


@by_hand(positions)
def test_query_positions(call: HandCall, kernel: Kernel) -> None:
    # Slots 2, 3, 4 are written; the queries stand at 2, 2 and 9. The second sees 0 to 2, which is
    # not its own key; the third all five keys that there are. From the slots they were 3, 4, 5.
    call.expect(kernel, [[4, 4, 4]], [[4, 4, 4]], [[2.4, 2.4, 2.4, 2.4, 2.4]])
    assert call.stored("value_cache", 3)[:5] == [0, 0, 0, 12, 0]


def biased(dtype: torch.dtype) -> HandCall:
    # [1, 2 heads, 2 queries, 4 keys]; the last column is behind the context.
    bias = torch.tensor([[[[LN3, 0, 9, 9], [0, 0, LN2, 9]], [[0, LN7, 9, 9], [LN5, 0, 0, 9]]]])
    values = [[[16]], [[0, 16]], [[0, 0, 16]]]
    tokens = Tokens([[[0], [0]]] * 2, [[[0]]] * 3, values)
    return hand_call(dtype, tokens, attention_bias=bias.to(dtype))


@by_hand(biased)
def test_attention_bias(call: HandCall, kernel: Kernel) -> None:
    # Query 0 (position 1) sees keys 0, 1: head 0 weighs 3 : 1, head 1 1 : 7. The 9 is masked.
    # Query 1 sees all: head 0 weighs 1 : 1 : 2, head 1 5 : 1 : 1, so 80/7 and 16/7.
    call.expect(kernel, [[12, 4], [2, 14]], [[4, 4, 8], [80 / 7, 16 / 7, 16 / 7]])


def biased_behind_the_softcap(dtype: torch.dtype) -> HandCall:
    bias = torch.zeros(1, 1, 1, 2)
    bias[..., 0] = LN7
    tokens = Tokens([[[100]]], [[[1]], [[1]]], [[[8]], [[0, 8]]])
    return hand_call(dtype, tokens, softcap=1.0, scale=0.25, attention_bias=bias.to(dtype))


@by_hand(biased_behind_the_softcap)
def test_a_bias_is_neither_scaled_nor_capped(call: HandCall, kernel: Kernel) -> None:
    # Both logits are capped to 1; then ln 7 is added to the first: 7 : 1 of 8.
    # Inside the cap it would vanish (4 and 4), scaled by 1/4 it were 7^(1/4) = 1.63 : 1.
    call.expect(kernel, [[7, 1]])


def scores(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[2]], [[2]]], [[[LN3]], [[0]], [[LN2]]], [[[8]], [[0, 8]], [[0, 0, 8]]])
    sink = torch.tensor([LN4], dtype=dtype)
    return hand_call(dtype, tokens, scale=0.5, qk_output=1, head_sink=sink)


@by_hand(scores)
def test_scores_before_the_softmax(call: HandCall, kernel: Kernel) -> None:
    # Logits behind the scale, 2 ln 3 / 2; what is masked is -inf, as wide as the table: 2 blocks.
    found = call.run(kernel).output_qk
    assert found is not None
    expected = torch.tensor([[[LN3, 0, -inf], [LN3, 0, LN2]]]).double()
    expect_close(found[..., :3], expected, call.inputs.query.dtype)
    assert found.shape == (1, 2, 32)
    assert bool((found[..., 3:] == -inf).all())


def probabilities(dtype: torch.dtype) -> HandCall:
    call = scores(dtype)
    return replace(call, attributes=replace(call.attributes, qk_output=2))


@by_hand(probabilities)
def test_scores_behind_the_softmax(call: HandCall, kernel: Kernel) -> None:
    # Weights 3 and 1 beside a sink of 4, of 8; then 3, 1, 2 beside 4, of 10. Masked keys have 0.
    found = call.run(kernel).output_qk
    assert found is not None
    expected = torch.tensor([[[3 / 8, 1 / 8, 0], [0.3, 0.1, 0.2]]]).double()
    expect_close(found[..., :3], expected, call.inputs.query.dtype)
    assert found.shape == (1, 2, 32)
    assert not found[..., 3:].any()
