"""Quantized caches by hand: rounding, saturation, and which scale belongs to which channel.

Codes are compared exactly; every number below is exact in all element types.
"""

from __future__ import annotations

import torch
from every_backend import Kernel
from hand_call import LN3, HandCall, Tokens, by_hand, hand_call

FLOAT8 = torch.float8_e4m3fn


def scaled_by(key: float, value: float) -> dict[str, object]:
    return {
        "k_quant_type": "PER_TENSOR",
        "v_quant_type": "PER_TENSOR",
        "k_scale": torch.tensor([key]),
        "v_scale": torch.tensor([value]),
    }


def int8_per_tensor(dtype: torch.dtype) -> HandCall:
    key = [1.25, 1.75, -1.25, -1.75, 100, -100, 0.5, 0.125]
    value = [1.25, 1.75, -1.25, -1.75, 100, -100, 0.5, 0.125]
    tokens = Tokens([[[0]]], [[key]], [[value]])
    return hand_call(dtype, tokens, cache_dtype=torch.int8, **scaled_by(0.5, 0.25))


@by_hand(int8_per_tensor)
def test_int8_rounds_half_to_even_and_saturates(call: HandCall, kernel: Kernel) -> None:
    # Keys / 0.5: 2.5, 3.5, -2.5, -3.5 go to the even neighbours 2, 4, -2, -4; 200 and -200 to the
    # ends; 1; 0.25 to 0. Values / 0.25: 5, 7, -5, -7; 400 and -400 to the ends; 2; 0.5 to 0.
    # The token reads its own value from the cache, times 0.25.
    call.expect(kernel, [[1.25, 1.75, -1.25, -1.75, 31.75, -32, 0.5, 0]])
    assert call.stored("key_cache", 0) == [2, 4, -2, -4, 127, -128, 1, 0]
    assert call.stored("value_cache", 0) == [5, 7, -5, -7, 127, -128, 2, 0]


def int8_logits(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[LN3 / 2]]], [[[4]], [[0.125]]], [[[64]], [[0, 16]]])
    return hand_call(dtype, tokens, cache_dtype=torch.int8, **scaled_by(0.5, 0.25))


@by_hand(int8_logits)
def test_int8_logits_and_outputs_have_their_own_scales(call: HandCall, kernel: Kernel) -> None:
    # Key code 4 is 2: logit ln 3 / 2 * 2 = ln 3. The new key 0.125 / 0.5 = 0.25 is code 0: logit 0.
    # Value code 64 is 16, the new 16 is code 64. 3/4 * 16 = 12 and 1/4 * 16 = 4.
    # Exchanged scales: logit ln 3 / 2, and 32s instead of the first 16.
    call.expect(kernel, [[12, 4]])
    assert call.stored("key_cache", 1)[0] == 0
    assert call.stored("value_cache", 1)[:2] == [0, 64]


def float8_per_tensor(dtype: torch.dtype) -> HandCall:
    tiny = 2.0**-11
    key = [8.5, 9.5, -8.5, 1000, -1000, tiny, 3 * tiny, 0.75]
    value = [4.25, 4.75, -4.25, 200, -200, 0.5 * tiny, 1.5 * tiny, 0.375]
    tokens = Tokens([[[0]]], [[key]], [[value]])
    return hand_call(dtype, tokens, cache_dtype=FLOAT8, **scaled_by(0.5, 0.25))


@by_hand(float8_per_tensor)
def test_float8_rounds_half_to_even_and_saturates(call: HandCall, kernel: Kernel) -> None:
    # Keys / 0.5: 17 lies between 16 and 18, 19 between 18 and 20 (three bits behind the first):
    # the even ones are 16 and 20. 2000 becomes the largest, 448. 2^-10 is half of the smallest
    # number 2^-9 and goes to 0, 3 * 2^-10 to 2^-8. 1.5 is exact. Values / 0.25 are the same, but
    # 800. The output is code * 0.25.
    codes = [16, 20, -16, 448, -448, 0, 2.0**-8, 1.5]
    call.expect(kernel, [[4, 5, -4, 112, -112, 0, 2.0**-10, 0.375]])
    assert call.stored("key_cache", 0) == codes
    assert call.stored("value_cache", 0) == codes


def float8_logits(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[LN3 / 4]]], [[[8]], [[0]]], [[[32]], [[0, 16]]])
    return hand_call(dtype, tokens, cache_dtype=FLOAT8, **scaled_by(0.5, 0.25))


@by_hand(float8_logits)
def test_float8_logits_and_outputs_have_their_own_scales(call: HandCall, kernel: Kernel) -> None:
    # Key code 8 is 4: logit ln 3. Value code 32 is 8; the new 16 is code 64. 3/4 * 8, 1/4 * 16.
    # Exchanged scales: logit ln 3 / 2 (weights 1.73 and 1) and 16 instead of 8.
    call.expect(kernel, [[6, 4]])
    assert call.stored("value_cache", 1)[:2] == [0, 64]


K_SCALE = torch.tensor([[[1, 2, 4, 0.5, 1, 1, 1, 1]], [[0.25, 1, 2, 8, 1, 1, 1, 1]]])
V_SCALE = torch.tensor([[[2, 1, 0.5, 4, 1, 1, 1, 1]], [[8, 0.5, 1, 2, 1, 1, 1, 1]]])


def per_channel(dtype: torch.dtype, cache_dtype: torch.dtype) -> HandCall:
    # Codes of the cached token: keys 4, 1, 1, 2 and 4, 0, 1, 1; values 8 everywhere.
    past_key = [[4, 1, 1, 2], [4, 0, 1, 1]]
    tokens = Tokens(
        query=[[[0, LN3 / 2], [0, 0, 0, LN3 / 8]]],
        key=[past_key, [[0, 0, 8, 8], [8, 8]]],
        value=[[[8] * 4, [8] * 4], [[8] * 4, [16] * 4]],
    )
    return hand_call(
        dtype,
        tokens,
        cache_dtype=cache_dtype,
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL",
        k_scale=K_SCALE.clone(),
        v_scale=V_SCALE.clone(),
    )


def expect_per_channel(call: HandCall, kernel: Kernel) -> None:
    # Head 0: key channel 1 is 1 * 2, logit ln 3 / 2 * 2 = ln 3; head 1: channel 3 is 1 * 8, logit
    # ln 3. New keys have 0 there. Weights 3/4 and 1/4.
    # Values of the cached token: 8 times the scales; those of the new one come back as they were.
    # Head 0: 3/4 * [16, 8, 4, 32] + 1/4 * 8 = [14, 8, 5, 26].
    # Head 1: 3/4 * [64, 4, 8, 16] + 1/4 * 16 = [52, 7, 10, 16].
    call.expect(kernel, [[14, 8, 5, 26], [52, 7, 10, 16]])
    # New keys / scales: 8 / 4 and 8 / 0.5; 8 / 0.25 and 8 / 1. Values 8 / [2, 1, 0.5, 4] and
    # 16 / [8, 0.5, 1, 2].
    assert call.stored("key_cache", 1, head=0)[:4] == [0, 0, 2, 16]
    assert call.stored("key_cache", 1, head=1)[:4] == [32, 8, 0, 0]
    assert call.stored("value_cache", 1, head=0)[:4] == [4, 8, 16, 2]
    assert call.stored("value_cache", 1, head=1)[:4] == [2, 32, 16, 8]


def int8_per_channel(dtype: torch.dtype) -> HandCall:
    return per_channel(dtype, torch.int8)


@by_hand(int8_per_channel)
def test_int8_scales_belong_to_a_head_and_a_channel(call: HandCall, kernel: Kernel) -> None:
    expect_per_channel(call, kernel)


def float8_per_channel(dtype: torch.dtype) -> HandCall:
    return per_channel(dtype, FLOAT8)


@by_hand(float8_per_channel)
def test_float8_scales_belong_to_a_head_and_a_channel(call: HandCall, kernel: Kernel) -> None:
    expect_per_channel(call, kernel)


def mixed(dtype: torch.dtype) -> HandCall:
    tokens = Tokens([[[LN3 / 4, 0]]], [[[2, 1]], [[0, 3]]], [[[8, 8]], [[16, 16]]])
    return hand_call(
        dtype,
        tokens,
        cache_dtype=torch.int8,
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_TENSOR",
        k_scale=torch.tensor([[[2, 0.5, 1, 1, 1, 1, 1, 1]]]),
        v_scale=torch.tensor([0.5]),
    )


@by_hand(mixed)
def test_keys_and_values_choose_their_granularity(call: HandCall, kernel: Kernel) -> None:
    # Key code 2 is 4: logit ln 3. Values 8 * 0.5 = 4 and 16: 3/4 * 4 + 1/4 * 16 = 7.
    call.expect(kernel, [[7, 7]])
    assert call.stored("key_cache", 1)[:2] == [0, 6]
    assert call.stored("value_cache", 1)[:2] == [32, 32]


def latent_int8(dtype: torch.dtype) -> HandCall:
    scale = torch.ones(1, 1, 16)
    scale[0, 0, [0, 1, 8]] = torch.tensor([2, 0.5, 0.25])
    tokens = Tokens([[[0] * 8 + [LN3]]], [[[4] + [0] * 7 + [4]], [[0, 8]]], size=16)
    return hand_call(
        dtype,
        tokens,
        cache_dtype=torch.int8,
        kv_cache_layout="LATENT",
        v_head_size=8,
        k_quant_type="PER_CHANNEL",
        k_scale=scale,
    )


@by_hand(latent_int8)
def test_latent_values_have_the_scales_of_the_keys(call: HandCall, kernel: Kernel) -> None:
    # Channel 8: code 4 is 1, logit ln 3, the new row has 0. Values: 4 * 2 = 8 in channel 0, the
    # new 8 is code 16 in channel 1. 3/4 * 8 = 6 and 1/4 * 8 = 2.
    call.expect(kernel, [[6, 2]])
    assert call.stored("key_cache", 1)[:2] == [0, 16]
