"""Target: config.json and generation_config.json of many families, with changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_choices import Choices, changed
from fuzz_report import checked
from llama_config import LLAMA

ROPES: tuple[Any, ...] = (
    None,
    {"rope_type": "default", "rope_theta": 10000.0},
    {"type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
    {
        "rope_type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
        "original_max_position_embeddings": 256,
    },
    {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
)
FAMILIES = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "qwen3_next"),
    *("phi3", "phi", "gemma", "gemma2", "gemma3_text", "gemma3", "olmo2", "cohere", "cohere2"),
    *("gpt_oss", "gpt_neox", "gpt2", "falcon", "smollm3", "granite", "granitemoehybrid", "lfm2"),
    *("deepseek_v2", "deepseek_v3", "nemotron", "nemotron_h", "jamba", "mamba2", "bamba", "glm4"),
    *("starcoder2", "stablelm", "exaone4", "minimax", "llama4_text", "qwen3_5_text", "bert", "x"),
)
KEYS = (
    *("head_dim", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types"),
    *("rope_scaling", "rope_parameters", "partial_rotary_factor", "rotary_pct", "rotary_dim"),
    *("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "dtype"),
    *("attention_multiplier", "attention_bias", "text_config", "num_local_experts", "kv_lora_rank"),
    *("q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "multi_query", "alibi"),
    *("new_decoder_architecture", "num_kv_heads", "n_head", "n_layer", "n_embd", "n_positions"),
    *("full_attn_idxs", "conv_L_cache", "conv_bias", "linear_num_value_heads", "layers_block_type"),
    *("linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim", "ssm_state_size"),
    *("linear_conv_kernel_dim", "hybrid_override_pattern", "mamba_num_heads", "mamba_head_dim"),
    *("sliding_window_pattern", "no_rope_layers", "no_rope_layer_interval", "quantization_config"),
    *("full_attention_interval", "attention_chunk_size", "use_qk_norm", "original_max_position"),
    *("num_kv_shared_layers", "attn_layer_period", "attn_layer_offset", "global_head_dim", "x"),
)
FOUND: tuple[bytes, ...] = ()
_FOLDER = TemporaryDirectory()


def seeds() -> Iterator[bytes]:
    """Yield some choices for each family."""
    for index in range(len(FAMILIES)):
        yield bytes([index, index % len(ROPES), 0]) + Random(index).randbytes(60)
    yield from FOUND


def one_input(data: bytes) -> None:
    """Check a folder whose configuration the bytes choose."""
    choices = Choices(data)
    family = choices.one_of(FAMILIES)
    base = LLAMA | {"model_type": family}
    rope = choices.one_of(ROPES)
    if rope is not None:
        base["rope_scaling" if choices.number(2) else "rope_parameters"] = rope
    document = changed(base, choices, KEYS)
    if choices.number(8) == 1:
        document = {"model_type": family, "text_config": document}
    folder = Path(_FOLDER.name)
    (folder / "config.json").write_text(json.dumps(document))
    generation = changed(
        {"eos_token_id": [2, 3], "bos_token_id": 1}, choices, ("pad_token_id", "x")
    )
    (folder / "generation_config.json").write_text(json.dumps(generation))
    checked(folder)
