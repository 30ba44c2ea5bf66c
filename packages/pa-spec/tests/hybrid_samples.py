"""Configurations of hybrids, small and of the sizes that the contract names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.checker.finding import Finding, Findings, Place
from pa_spec.checker.huggingface.config.resolve import resolve_config
from pa_spec.checker.meaning import ModelMeaning

LFM2: dict[str, Any] = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "vocab_size": 65536,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "max_position_embeddings": 128000,
    "dtype": "float16",
}
QWEN35: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 1024,
    "vocab_size": 248320,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "max_position_embeddings": 262144,
    "dtype": "float16",
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "vocab_size": 129280,
    "num_hidden_layers": 3,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "dtype": "bfloat16",
}
NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "vocab_size": 131072,
    "hybrid_override_pattern": "MEM*",
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}
FALCON: dict[str, Any] = {
    "model_type": "falcon_h1",
    "hidden_size": 3072,
    "vocab_size": 130049,
    "num_hidden_layers": 2,
    "num_attention_heads": 24,
    "num_key_value_heads": 2,
    "mamba_d_ssm": 3072,
    "mamba_n_heads": 24,
    "mamba_d_head": 128,
    "mamba_d_state": 256,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}
GEMMA4: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": 2816,
    "vocab_size": 262144,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 1024,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}
LLAMA4: dict[str, Any] = {
    "model_type": "llama4_text",
    "hidden_size": 5120,
    "vocab_size": 202048,
    "num_hidden_layers": 4,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "attention_chunk_size": 8192,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}
GRANITE: dict[str, Any] = {
    "model_type": "granitemoehybrid",
    "hidden_size": 4096,
    "vocab_size": 100352,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "layer_types": ["attention", "attention"],
    "attention_multiplier": 0.0078125,
    "mamba_n_heads": 128,
    "max_position_embeddings": 131072,
    "dtype": "bfloat16",
}
DECILM: dict[str, Any] = {
    "model_type": "nemotron-nas",
    "hidden_size": 8192,
    "vocab_size": 128256,
    "num_attention_heads": 64,
    "num_hidden_layers": 3,
    "block_configs": [
        {"attention": {"no_op": False, "n_heads_in_group": 8}, "ffn": {"no_op": False}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": False}},
        {"attention": {"replace_with_linear": True, "n_heads_in_group": None}},
    ],
    "max_position_embeddings": 131072,
    "dtype": "bfloat16",
}
SAMPLES: Mapping[str, dict[str, Any]] = {
    each["model_type"]: each
    for each in (
        LFM2,
        QWEN35,
        DEEPSEEK,
        NEMOTRON,
        FALCON,
        GEMMA4,
        LLAMA4,
        GRANITE,
        DECILM,
    )
}


def resolve(config: Mapping[str, Any]) -> tuple[ModelMeaning | None, tuple[Finding, ...]]:
    """Resolve a configuration and return what was found on the way."""
    findings = Findings()
    meaning = resolve_config(config, findings, Place("config.json"))
    return meaning, tuple(findings)


def meaning_of(config: Mapping[str, Any]) -> ModelMeaning:
    """Resolve a configuration that can be."""
    meaning, found = resolve(config)
    assert meaning is not None, [str(each) for each in found]
    return meaning


def messages(config: Mapping[str, Any]) -> list[str]:
    """Return what is found in a configuration, as it is printed."""
    return [str(each) for each in resolve(config)[1]]
