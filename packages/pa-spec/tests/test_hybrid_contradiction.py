"""What a hybrid's configuration says twice, in vain, or against itself: one finding for each."""

from __future__ import annotations

from typing import Any

import pytest
from hybrid_samples import (
    FALCON,
    GEMMA4,
    GRANITE,
    LFM2,
    LLAMA4,
    NEMOTRON,
    QWEN35,
    messages,
    resolve,
)

LINEAR, FULL = "linear_attention", "full_attention"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            QWEN35 | {"num_hidden_layers": 2, "layer_types": [FULL, LINEAR]},
            (
                "full_attention_interval: expected what layer_types says, which is used: 1 of 2 "
                "layers attend, got 4 (config.disagreement)"
            ),
        ),
        (
            LFM2 | {"num_hidden_layers": 2, "full_attn_idxs": [0], "layer_types": ["conv", FULL]},
            (
                "full_attn_idxs: expected what layer_types says, which is used: 1 of 2 layers "
                "attend, got a list of 1 (config.disagreement)"
            ),
        ),
        (
            LFM2 | {"full_attn_idxs": [0, 16]},
            "full_attn_idxs: expected layers 0 to 15, got 16 (config.ignored)",
        ),
        (
            NEMOTRON | {"num_hidden_layers": 9},
            (
                "num_hidden_layers: expected what hybrid_override_pattern says, which is used: 4, "
                "got 9 (config.disagreement)"
            ),
        ),
        (
            NEMOTRON | {"attention_head_dim": 64},
            "attention_head_dim: expected head_dim, which is 128, got 64 (config.ignored)",
        ),
        (
            NEMOTRON | {"tie_word_embeddings": True},
            (
                "tie_word_embeddings: expected false: the class ties nothing, so the weights hold "
                "both, got true (config.ignored)"
            ),
        ),
        (
            FALCON | {"attn_layer_indices": [1]},
            (
                "attn_layer_indices: expected null: every layer attends, got a list of 1 "
                "(config.ignored)"
            ),
        ),
        (
            GRANITE | {"layers_block_type": ["mamba", "attention"]},
            (
                "layer_types: expected what layers_block_type says, which is used: ['mamba', "
                "'attention'], got a list of 2 (config.disagreement)"
            ),
        ),
        (
            GEMMA4 | {"layer_types": ["sliding_attention"] * 6},
            (
                "layer_types[5]: expected full_attention, which the class puts there, got "
                "sliding_attention (config.ignored)"
            ),
        ),
        (
            QWEN35 | {"sliding_window": 4096},
            (
                "sliding_window: expected null: the family's layers attend to everything, got 4096 "
                "(config.ignored)"
            ),
        ),
    ],
    ids=[
        "interval",
        "indices",
        "index outside",
        "number of layers",
        "older head size",
        "tie",
        "indices of Falcon",
        "two lists",
        "last layer",
        "window",
    ],
)
def test_what_is_not_read_is_reported_once_and_the_rest_resolves(
    config: dict[str, Any], message: str
) -> None:
    assert resolve(config)[0] is not None
    assert stateless(config) == [f"config.json: {message}"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            QWEN35 | {"linear_num_value_heads": 24},
            (
                "linear_num_value_heads: expected a multiple of linear_num_key_heads=16, got 24 "
                "(config.contradiction)"
            ),
        ),
        (
            GRANITE | {"mamba_d_head": 32},
            (
                "mamba_d_head: expected heads that are 8192 wide together, got 128 of 32 "
                "(config.contradiction)"
            ),
        ),
        (
            NEMOTRON | {"n_groups": 7},
            "n_groups: expected a divisor of the 64 heads, got 7 (config.contradiction)",
        ),
        (
            FALCON | {"layer_types": ["hybrid"] * 2},
            (
                "layer_types: expected no such key: all layers are alike, and the class cannot be "
                "told otherwise, got a list of 2 (config.contradiction)"
            ),
        ),
        (
            LLAMA4 | {"no_rope_layers": [1, 0]},
            (
                "no_rope_layers: expected num_hidden_layers=4 entries, got 2 entries "
                "(config.contradiction)"
            ),
        ),
        (
            LLAMA4 | {"attention_chunk_size": None, "layer_types": ["chunked_attention"] * 4},
            (
                "attention_chunk_size: expected a size, as layer_types has chunked_attention "
                "layers, got null (config.contradiction)"
            ),
        ),
        (
            GEMMA4 | {"num_kv_shared_layers": 6},
            (
                "num_kv_shared_layers: expected layers of every type that are left with a cache of "
                "their own, got 6 (config.contradiction)"
            ),
        ),
        (
            GEMMA4 | {"use_bidirectional_attention": "all"},
            (
                "use_bidirectional_attention: expected causal attention between tokens of text: "
                "null or vision, got all (config.unsupported)"
            ),
        ),
        (
            GEMMA4 | {"rope_parameters": {"full_attention": {"rope_theta": 10.0}}},
            (
                "rope_parameters: expected a value, got no object for sliding_attention "
                "(config.missing)"
            ),
        ),
        (
            QWEN35 | {"per_layer_config": {"0": {"head_dim": 64}}},
            (
                "per_layer_config: expected the same values in all layers, in this family, got an "
                "object of 1 keys (config.unsupported)"
            ),
        ),
    ],
    ids=[
        "value heads",
        "head size",
        "groups",
        "types of Falcon",
        "rotated layers",
        "chunks without a size",
        "nothing owned",
        "both directions",
        "one rotary embedding",
        "single layers",
    ],
)
def test_what_cannot_hold_is_refused_for_one_reason(config: dict[str, Any], message: str) -> None:
    assert resolve(config)[0] is None
    assert messages(config) == [f"config.json: {message}"]


def stateless(config: dict[str, Any]) -> list[str]:
    """Return what is found beside the absence of a manifest."""
    return [each for each in messages(config) if "(hybrid.state)" not in each]
