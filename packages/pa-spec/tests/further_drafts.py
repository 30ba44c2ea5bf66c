"""Drafts of spec/vectors/attention.json: caches of other kinds, positions, bias, scores."""

from __future__ import annotations

from attention_cases import Draft, rotary
from attention_drafts import WEIGHTS

QUANTIZED = (
    Draft(
        "int8_per_tensor",
        "one scale; the call's own tokens are read back rounded",
        [(2, 2)],
        [[1]],
        cache_type="int8",
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"},
        inputs={"k_scale": [0.5], "v_scale": [0.25]},
    ),
    Draft(
        "int8_per_channel",
        "scale[h * D + c]; ties go to even",
        [(1, 2)],
        [[1]],
        heads=(2, 2),
        cache_type="int8",
        attributes={"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL"},
        inputs={
            "k_scale": [[[0.125, 0.5, 1, 0.25, 2, 0.125, 0.25, 0.5]], [[1, 1, 0.5] + [0.25] * 5]],
            "v_scale": [[[0.5, 0.25] * 4], [[1, 0.125] * 4]],
        },
    ),
    Draft(
        "int8_mixed_granularity",
        "keys per tensor, values per channel, scale of two axes",
        [(1, 1)],
        [[0]],
        heads=(2, 1),
        cache_type="int8",
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_CHANNEL"},
        inputs={"k_scale": [0.25], "v_scale": [[0.5, 0.125, 1, 0.25, 2, 0.25, 0.5, 1]]},
    ),
    Draft(
        "int8_saturates",
        "what is beyond -128 to 127 is clamped",
        [(0, 2)],
        [[0]],
        cache_type="int8",
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"},
        inputs={"k_scale": [0.0078125], "v_scale": [0.0078125]},
    ),
    Draft(
        "float8_per_tensor",
        "three bits behind the first",
        [(2, 2)],
        [[1]],
        cache_type="float8e4m3fn",
        attributes={"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"},
        inputs={"k_scale": [0.5], "v_scale": [2]},
    ),
    Draft(
        "float8_per_channel",
        "scale[h * D + c]",
        [(1, 2)],
        [[0]],
        heads=(2, 2),
        cache_type="float8e4m3fn",
        attributes={"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL"},
        inputs={
            "k_scale": [[[1, 0.5, 0.25, 2] * 2], [[0.5] * 8]],
            "v_scale": [[[0.5, 4] * 4], [[1, 2, 0.25, 1] * 2]],
        },
    ),
)

LATENT = {"kv_cache_layout": "LATENT", "v_head_size": 8, "scale": 0.25}
LATENT_CASES = (
    Draft(
        "latent",
        "values are the first v_head_size channels of the key cache",
        [(2, 2), (1, 1)],
        [[1], [0]],
        heads=(2, 1),
        head_size=16,
        is_latent=True,
        attributes=LATENT,
    ),
    Draft(
        "latent_window_and_softcap",
        "both are allowed here too",
        [(3, 2)],
        [[1]],
        heads=(2, 1),
        head_size=16,
        is_latent=True,
        attributes={**LATENT, "local_window_size": 2, "softcap": 1.0},
    ),
    Draft(
        "latent_rotary",
        "the channels behind the values turn",
        [(1, 2)],
        [[1]],
        heads=(2, 1),
        head_size=16,
        is_latent=True,
        attributes={**LATENT, "do_rotary": 1, "rotary_offset": 8},
        inputs=rotary(4, 4),
    ),
    Draft(
        "latent_int8",
        "values are dequantized by the first v_head_size entries of k_scale",
        [(1, 2)],
        [[0]],
        heads=(2, 1),
        head_size=16,
        is_latent=True,
        cache_type="int8",
        attributes={**LATENT, "k_quant_type": "PER_CHANNEL"},
        inputs={"k_scale": [[[0.5, 0.25, 1, 0.125] * 4]]},
    ),
)

POSITIONS = (
    Draft(
        "query_positions",
        "positions move the mask, not the slot; keys end with the row's tokens",
        [(2, 3)],
        [[0]],
        inputs={"query_positions": [9, 3, 3]},
    ),
    Draft(
        "query_positions_turn",
        "positions move the rotation and the window",
        [(2, 2)],
        [[1]],
        attributes={"do_rotary": 1, "local_window_size": 2},
        inputs={"query_positions": [3, 4], **rotary(6, 4)},
    ),
    Draft(
        "bias",
        "a bias for each row, head, query offset and place",
        [(1, 2), (2, 1)],
        [[0], [1]],
        heads=(2, 1),
        inputs={
            "attention_bias": [
                [
                    [[0.5, -1, 0.25], [1, 0.75, -0.5]],
                    [[-1.5, 0, 1], [0.125, -0.25, 2]],
                ],
                [
                    [[2, -2, 0.5], [0, 0, 0]],
                    [[-0.75, 1.25, -1], [0, 0, 0]],
                ],
            ]
        },
    ),
    Draft(
        "bias_for_all",
        "one bias for every row and head, with room to spare",
        [(1, 1), (2, 1)],
        [[0], [1]],
        heads=(2, 1),
        inputs={"attention_bias": [[[[1, -1.5, 0.5, 7], [0, 0, 0, 0]]]]},
    ),
    Draft(
        "bias_behind_the_softcap",
        "the bias is added after the softcap; -inf masks",
        [(2, 1)],
        [[1]],
        attributes={"scale": 1.0, "softcap": 1.0},
        inputs={"attention_bias": [[[[2, "-inf", -1]]]]},
    ),
)

SCORES = (
    Draft(
        "scores_before_softmax",
        "scale, softcap and bias are in, masked places are -inf, width M * S",
        [(1, 2)],
        [[1]],
        attributes={"qk_output": 1, "softcap": 2.0, "scale": 0.5},
        inputs={"attention_bias": [[[[0.5, -1, 0], [1, 0.25, -0.5]]]]},
    ),
    Draft(
        "scores_behind_softmax",
        "probabilities with the sink in the denominator, masked places are 0",
        [(2, 2)],
        [[1]],
        heads=(2, 1),
        attributes={"qk_output": 2, "local_window_size": 2},
        inputs={"head_sink": [0.5, -1], "attention_metadata": [2, 5]},
    ),
    Draft(
        "scores_of_padding",
        "a row that sees nothing has -inf everywhere",
        [(1, 1), (0, 1)],
        [[0], [-1]],
        attributes={"qk_output": 1},
        inputs={"attention_metadata": [1, 3, 0]},
    ),
    Draft(
        "scores_beyond_the_table",
        "a bound above what the table holds is clamped to M * S columns",
        [(1, 2)],
        [[1, -1]],
        attributes={"qk_output": 1},
        inputs={"attention_metadata": [4096, 100000]},
    ),
)

METADATA = (
    Draft(
        "metadata_of_two",
        "bounds size the work and change no result",
        [(3, 2), (1, 1)],
        [[0], [1]],
        inputs={"attention_metadata": [2, 5]},
    ),
    Draft(
        "metadata_of_three",
        "the lower bound changes no result either",
        [(3, 2), (1, 1)],
        [[0], [1]],
        inputs={"attention_metadata": [2, 5, 5]},
    ),
    Draft(
        "metadata_unknown",
        "0 is no bound",
        [(3, 2), (1, 1)],
        [[0], [1]],
        inputs={"attention_metadata": [0, 0, 0]},
    ),
    Draft(
        "metadata_beyond_the_table",
        "bounds above what the table holds are clamped",
        [(3, 2), (1, 1)],
        [[0], [1]],
        inputs={"attention_metadata": [4096, 100000, 1]},
    ),
)

TOGETHER = (
    Draft(
        "everything_at_once",
        "packed, grouped, norm, rotary, window, softcap and sink in ragged rows",
        [(5, 2), (0, 3), (2, 1)],
        [[2, -1], [0, -1], [1, -1]],
        heads=(4, 2),
        blocks=3,
        is_packed=True,
        attributes={"do_rotary": 1, "local_window_size": 3, "softcap": 2.0, "scale": 0.5},
        inputs={
            "q_norm_weight": WEIGHTS,
            "k_norm_weight": WEIGHTS[::-1],
            "head_sink": [0.5, -1, 1, 0],
            **rotary(8, 4),
        },
    ),
)

FURTHER_DRAFTS = (*QUANTIZED, *LATENT_CASES, *POSITIONS, *SCORES, *METADATA, *TOGETHER)
