"""Drafts of spec/vectors/attention.json: masks, logits, rotation."""

from __future__ import annotations

from attention_cases import Draft, rotary

WEIGHTS = [1, 0.5, 1.25, -1, 0.75, 1.5, 1, 0.25]

CAUSAL = (
    Draft("one_token", "a token that sees only itself yields its value", [(0, 1)], [[1]]),
    Draft("prompt", "each token sees those before it and itself", [(0, 4)], [[1]]),
    Draft("decode", "rows of different length, one token each", [(3, 1), (6, 1)], [[1], [0]]),
    Draft("later_chunk", "a chunk sees the past and its own past", [(3, 3)], [[0]]),
    Draft(
        "next_block",
        "a row goes on in a block that is not the neighbour",
        [(15, 2)],
        [[2, 0]],
        blocks=3,
    ),
    Draft(
        "wider_block",
        "blocks of 32 slots, 24 channels",
        [(1, 2)],
        [[1]],
        head_size=24,
        block_size=32,
    ),
    Draft(
        "grouped_heads",
        "neighbouring query heads share a KV head",
        [(2, 2)],
        [[1]],
        heads=(4, 2),
    ),
    Draft("three_for_one", "three query heads share one", [(2, 1)], [[0]], heads=(3, 1)),
    Draft(
        "packed_qkv",
        "query, key and value in one row",
        [(1, 2), (0, 1)],
        [[1], [0]],
        heads=(2, 1),
        is_packed=True,
    ),
    Draft(
        "strided_rows",
        "query, key and value are slices of wider rows",
        [(0, 2)],
        [[0]],
        heads=(2, 1),
        is_strided=True,
    ),
)

LOGITS = (
    Draft("scale", "an explicit scale", [(2, 2)], [[0]], attributes={"scale": 0.75}),
    Draft(
        "negative_scale",
        "the least alike key weighs most",
        [(2, 2)],
        [[0]],
        attributes={"scale": -0.75},
    ),
    Draft(
        "scale_of_zero",
        "0 is 1 / sqrt(head_size)",
        [(2, 2)],
        [[0]],
        head_size=24,
        attributes={"scale": 0.0},
    ),
    Draft(
        "large_logits",
        "logits whose exponential has no float32",
        [(3, 2)],
        [[0]],
        attributes={"scale": 64.0},
        element_types=("float32",),
    ),
    Draft(
        "softcap",
        "softcap * tanh(logit / softcap)",
        [(3, 2)],
        [[1]],
        attributes={"scale": 1.0, "softcap": 1.5},
    ),
    Draft(
        "softcap_under_the_mask",
        "masked keys stay masked behind the softcap",
        [(0, 3)],
        [[1]],
        attributes={"scale": 1.0, "softcap": 0.5},
    ),
    Draft(
        "head_sink",
        "a sink for each head, in the denominator only",
        [(2, 2)],
        [[1]],
        heads=(2, 1),
        inputs={"head_sink": [1.5, -0.5]},
    ),
    Draft(
        "high_sink",
        "a sink far above every logit takes nearly everything",
        [(2, 1)],
        [[1]],
        heads=(2, 1),
        inputs={"head_sink": [3, 60]},
    ),
)

WINDOW = (
    Draft(
        "window_longer_than_context",
        "window 4, three keys: all are seen",
        [(2, 1)],
        [[0]],
        attributes={"local_window_size": 4},
    ),
    Draft(
        "window_as_long_as_context",
        "window 4, four keys: all are seen",
        [(3, 1)],
        [[0]],
        attributes={"local_window_size": 4},
    ),
    Draft(
        "window_shorter_than_context",
        "window 4, five keys: the first is not seen",
        [(4, 1)],
        [[0]],
        attributes={"local_window_size": 4},
    ),
    Draft(
        "window_of_one",
        "a token sees itself alone",
        [(2, 2)],
        [[0]],
        attributes={"local_window_size": 1},
    ),
    Draft(
        "window_in_a_prompt",
        "the window moves with the query",
        [(1, 5)],
        [[1]],
        attributes={"local_window_size": 2},
    ),
    Draft(
        "rolling_window",
        "blocks that the window has left are unmapped; the write goes by slot_mapping",
        [(20, 1)],
        [[-1, 1]],
        attributes={"local_window_size": 4},
        inputs={"slot_mapping": [20]},
        is_sparse=True,
    ),
    Draft(
        "ring_table",
        "a ring of two blocks repeats in the table; old places hold newer tokens",
        [(34, 1)],
        [[1, 0, 1, 0]],
        attributes={"local_window_size": 3},
        is_sparse=True,
    ),
)

ROTARY = (
    Draft(
        "rotary_halves",
        "channel i turns with channel i + rotary_dim / 2",
        [(2, 2)],
        [[0]],
        attributes={"do_rotary": 1},
        inputs=rotary(6, 4),
    ),
    Draft(
        "rotary_interleaved",
        "channel 2i turns with channel 2i + 1",
        [(2, 2)],
        [[0]],
        attributes={"do_rotary": 1, "rotary_interleaved": 1},
        inputs=rotary(6, 4),
    ),
    Draft(
        "rotary_partial",
        "channels behind rotary_dim are copied",
        [(1, 2)],
        [[0]],
        attributes={"do_rotary": 1},
        inputs=rotary(6, 2),
    ),
    Draft(
        "rotary_offset",
        "channels before rotary_offset are copied",
        [(1, 2)],
        [[0]],
        head_size=16,
        attributes={"do_rotary": 1, "rotary_offset": 8},
        inputs=rotary(6, 4),
    ),
    Draft(
        "rotary_not_asked_for",
        "tables without do_rotary turn nothing",
        [(1, 2)],
        [[0]],
        inputs=rotary(6, 4),
    ),
    Draft(
        "qk_norm",
        "each head by its root mean square, epsilon inside the root",
        [(2, 2)],
        [[1]],
        heads=(2, 1),
        attributes={"qk_norm_epsilon": 0.5},
        inputs={"q_norm_weight": WEIGHTS, "k_norm_weight": WEIGHTS[::-1]},
    ),
    Draft(
        "qk_norm_before_rotary",
        "the weight meets the channel before it turns",
        [(1, 2)],
        [[1]],
        attributes={"do_rotary": 1},
        inputs={"q_norm_weight": WEIGHTS, "k_norm_weight": WEIGHTS[::-1], **rotary(6, 4)},
    ),
)

BASIC_DRAFTS = (*CAUSAL, *LOGITS, *WINDOW, *ROTARY)
