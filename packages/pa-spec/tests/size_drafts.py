"""Drafts of spec/vectors/attention_sizes.json: sizes as real models and engines have them."""

from __future__ import annotations

from size_cases import SizeDraft

RATIOS = (
    SizeDraft("heads_9_of_3", "9 heads of 64 share 3", [(70, 2), (0, 5)], (9, 3), 64, 64),
    SizeDraft("heads_14_of_2", "14 heads of 64 share 2", [(44, 3)], (14, 2), 64),
    SizeDraft("heads_25_of_5", "25 heads of 64 share 5", [(50, 2), (3, 1)], (25, 5), 64, 32),
    SizeDraft("heads_14_of_7", "14 heads of 32 share 7", [(45, 2)], (14, 7), 32),
    SizeDraft("heads_28_of_4", "28 heads of 128 share 4", [(41, 2)], (28, 4), 128, 64),
    SizeDraft("heads_32_of_8", "32 heads of 128 share 8", [(67, 1)], (32, 8), 128, 32),
    SizeDraft("heads_24_of_8", "24 heads of 128 share 8", [(18, 2)], (24, 8), 128),
    SizeDraft("heads_40_of_8", "40 heads of 128 share 8", [(17, 1)], (40, 8), 128),
    SizeDraft("heads_16_of_16", "every one of 16 heads has its own", [(43, 2)], (16, 16), 64),
    SizeDraft("heads_8_of_1", "8 heads of 256 share one", [(42, 2)], (8, 1), 256),
    SizeDraft("heads_4_of_1", "4 heads of 256 share one", [(70, 1), (2, 1)], (4, 1), 256, 32),
    *(
        SizeDraft(f"kv_heads_{count}", f"{count} KV heads", [(3, 2)], (2 * count, count))
        for count in (3, 5, 6, 7, 10, 12, 16)
    ),
)

HEAD_SIZES = tuple(
    SizeDraft(f"head_size_{size}", f"{size} channels", [(42, 2)], (2, 1), size)
    for size in (32, 64, 80, 96, 112, 128, 192, 256)
)

BLOCK_SIZES = tuple(
    SizeDraft(
        f"block_size_{size}_crossed",
        "one row enters its second block, one goes on in it",
        [(size - 1, 2), (size + 3, 1)],
        (2, 1),
        block_size=size,
    )
    for size in (16, 32, 64, 128, 256, 512)
)

CONTEXTS = (
    SizeDraft("context_of_300", "19 blocks of 16, beside a short row", [(299, 1), (3, 1)], (2, 1)),
    SizeDraft("context_of_1100", "69 columns of the table", [(1099, 1)]),
    SizeDraft("context_of_600", "three blocks of 256", [(598, 2)], (2, 1), 16, 256),
    SizeDraft("context_of_2100", "more than 2048 keys", [(2099, 1)], block_size=64),
    SizeDraft("prompt_of_70", "more tokens than a tile of 64", [(0, 70)], (2, 1), 64),
    SizeDraft("prompt_of_140", "more tokens than a tile of 128", [(0, 140)]),
    SizeDraft("chunk_of_70", "a long chunk behind a long past", [(60, 70)], (2, 1), 16, 64),
    SizeDraft(
        "long_beside_short",
        "a row of 261 keys beside rows of one, none, 40 and 6",
        [(260, 1), (0, 1), (3, 0), (37, 3), (5, 1)],
        (4, 2),
    ),
    SizeDraft(
        "prompt_beside_decode",
        "a first prompt, a decode and a chunk in one call",
        [(0, 33), (100, 1), (17, 5)],
        (6, 3),
        16,
        32,
    ),
    SizeDraft(
        "decode_of_33_rows",
        "one token each, contexts of 1 to 97",
        [(3 * row, 1) for row in range(33)],
        (2, 1),
    ),
)


def windowed(window: int, **further: float) -> dict[str, float]:
    return {"local_window_size": window} | further


WINDOWS = (
    SizeDraft(
        "window_in_a_first_prompt",
        "no past, more tokens than the window",
        [(0, 12)],
        attributes=windowed(5),
    ),
    SizeDraft("window_of_one_in_a_first_prompt", "itself", [(0, 4)], attributes=windowed(1)),
    SizeDraft(
        "window_as_a_block",
        "a first prompt of 40 with a window of one block",
        [(0, 40)],
        (3, 1),
        attributes=windowed(16),
    ),
    SizeDraft(
        "window_of_128_in_a_first_prompt",
        "150 tokens",
        [(0, 150)],
        attributes=windowed(128),
    ),
    SizeDraft(
        "window_in_a_long_chunk",
        "a chunk longer than the window behind a past that is longer too",
        [(100, 30), (0, 25)],
        (2, 1),
        attributes=windowed(20),
    ),
    SizeDraft(
        "window_of_128_in_decode",
        "sinks, 8 heads for one, and 300 keys of which 128 are seen",
        [(299, 1), (127, 1), (128, 1)],
        (16, 2),
        64,
        64,
        attributes=windowed(128),
        drawn={"head_sink": (16,)},
    ),
    SizeDraft(
        "window_behind_place_2048",
        "a window of 60 at the end of 2100 keys",
        [(2099, 1)],
        block_size=64,
        attributes=windowed(60),
    ),
    SizeDraft(
        "window_and_softcap_of_256",
        "heads of 256 with a softcap",
        [(60, 2), (0, 21)],
        (2, 1),
        256,
        attributes=windowed(20, softcap=2.0),
    ),
)

PROLOGUES = (
    SizeDraft(
        "rotary_of_128",
        "64 pairs in halves, behind position 40",
        [(45, 2)],
        (4, 2),
        128,
        attributes={"do_rotary": 1},
        drawn={"cos_cache": (48, 64), "sin_cache": (48, 64)},
    ),
    SizeDraft(
        "rotary_of_64_interleaved",
        "neighbours turn, with 3 KV heads",
        [(45, 2), (0, 2)],
        (9, 3),
        64,
        attributes={"do_rotary": 1, "rotary_interleaved": 1},
        drawn={"cos_cache": (47, 32), "sin_cache": (47, 32)},
    ),
    SizeDraft(
        "rotary_of_32_in_80",
        "16 pairs, 48 channels are copied",
        [(43, 2)],
        (2, 2),
        80,
        attributes={"do_rotary": 1},
        drawn={"cos_cache": (45, 16), "sin_cache": (45, 16)},
    ),
    SizeDraft(
        "rotary_at_position_300",
        "the row of the tables far behind",
        [(300, 2)],
        (2, 1),
        16,
        attributes={"do_rotary": 1},
        drawn={"cos_cache": (302, 8), "sin_cache": (302, 8)},
    ),
    SizeDraft(
        "qk_norm_of_128",
        "norm, rotation, packed rows, 3 KV heads",
        [(41, 2)],
        (6, 3),
        128,
        is_packed=True,
        attributes={"do_rotary": 1},
        drawn={
            "q_norm_weight": (128,),
            "k_norm_weight": (128,),
            "cos_cache": (43, 64),
            "sin_cache": (43, 64),
        },
    ),
    SizeDraft("packed_9_of_3", "packed rows", [(44, 3)], (9, 3), 64, 64, is_packed=True),
    SizeDraft("strided_14_of_7", "slices", [(44, 3)], (14, 7), 32, is_strided=True),
)

CACHES = (
    SizeDraft(
        "int8_of_9_heads_and_3",
        "scales for each of 3 * 64 channels",
        [(70, 2)],
        (9, 3),
        64,
        64,
        cache_type="int8",
        attributes={"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL"},
        inputs={
            name: [[[2.0 ** ((h + c) % size - 4) for c in range(64)]] for h in range(3)]
            for name, size in (("k_scale", 3), ("v_scale", 5))
        },
    ),
    SizeDraft(
        "float8_of_128",
        "one scale for 5 heads of 128",
        [(41, 2)],
        (10, 5),
        128,
        cache_type="float8e4m3fn",
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"},
        inputs={"k_scale": [0.5], "v_scale": [2]},
    ),
    SizeDraft(
        "latent_of_576",
        "512 channels are values, the 64 behind them turn",
        [(50, 2)],
        (4, 1),
        576,
        64,
        is_latent=True,
        attributes={
            "kv_cache_layout": "LATENT",
            "v_head_size": 512,
            "scale": 0.0625,
            "do_rotary": 1,
            "rotary_interleaved": 1,
            "rotary_offset": 512,
        },
        drawn={"cos_cache": (52, 32), "sin_cache": (52, 32)},
    ),
    SizeDraft(
        "slots_of_64_given",
        "slot_mapping names slots of another block",
        [(66, 2)],
        block_size=64,
        inputs={"slot_mapping": [255, 130]},
    ),
)

LOGITS = (
    SizeDraft(
        "bias_of_63_keys",
        "a bias for each row and head, behind place 40",
        [(60, 3), (5, 2)],
        (6, 3),
        16,
        drawn={"attention_bias": (2, 6, 3, 63)},
    ),
    SizeDraft(
        "positions_behind_300",
        "positions move the mask and the window in a long row",
        [(301, 3)],
        attributes={"local_window_size": 150},
        inputs={"query_positions": [290, 303, 200]},
    ),
    SizeDraft(
        "negative_scale_of_128",
        "the least alike key weighs most",
        [(41, 2)],
        (2, 1),
        128,
        attributes={"scale": -0.125},
    ),
    SizeDraft(
        "scores_before_softmax_of_50_keys",
        "bounds above the table are clamped: four blocks wide",
        [(48, 2), (0, 1)],
        (6, 3),
        columns=4,
        attributes={"qk_output": 1},
        inputs={"attention_metadata": [4096, 100000]},
    ),
    SizeDraft(
        "scores_behind_softmax_of_70_keys",
        "two blocks of 64 wide, three bounds",
        [(68, 2)],
        (2, 1),
        block_size=64,
        attributes={"qk_output": 2, "local_window_size": 33},
        inputs={"attention_metadata": [4096, 129, 1]},
    ),
    SizeDraft(
        "scores_of_a_bound",
        "the bound is the width",
        [(68, 2)],
        block_size=64,
        attributes={"qk_output": 1},
        inputs={"attention_metadata": [2, 71]},
    ),
)

SIZE_DRAFTS = (
    *RATIOS,
    *HEAD_SIZES,
    *BLOCK_SIZES,
    *CONTEXTS,
    *WINDOWS,
    *PROLOGUES,
    *CACHES,
    *LOGITS,
)
