"""Configurations of tiny models, one or several of each layout of spec/models/tensors.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL: Mapping[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"moe_intermediate_size": 24, "num_experts_per_tok": 2}
SHARED = {"shared_expert_intermediate_size": 56}
BIASES = {"attention_bias": True}
LATENT = EXPERTS | {
    "num_key_value_heads": 6,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 6,
    "n_group": 1,
    "topk_group": 1,
}
INDEXED = LATENT | {
    "index_head_dim": 12,
    "index_n_heads": 3,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
}
DELTA = {
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 14,
}
MAMBA = {
    "mamba_n_heads": 4,
    "mamba_d_head": 24,
    "mamba_d_state": 10,
    "mamba_n_groups": 2,
    "mamba_expand": 2,
}
CONV = {"layer_types": ["conv", "full_attention", "conv", "full_attention"]}
NEMOTRON = EXPERTS | {
    "layers_block_type": ["mamba", "moe", "attention", "mlp"],
    "n_routed_experts": 4,
    "moe_shared_expert_intermediate_size": 56,
    "mamba_num_heads": 4,
    "mamba_head_dim": 24,
    "ssm_state_size": 10,
    "n_groups": 2,
    "head_dim": 16,
}
GEMMA3 = {"head_dim": 16}
GEMMA4 = {
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 96,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 0,
}
CASES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("llama", {}),
    ("llama", BIASES | {"mlp_bias": True, "head_dim": 16}),
    ("llama", {"tie_word_embeddings": True}),
    ("mistral", {"head_dim": 16}),
    ("ministral", {"head_dim": 16}),
    ("ministral3", {"head_dim": 16}),
    ("granite", BIASES | {"mlp_bias": True}),
    ("smollm3", BIASES | {"mlp_bias": True}),
    ("qwen2", {}),
    ("qwen3", {"head_dim": 16}),
    ("qwen3", BIASES),
    ("seed_oss", {"head_dim": 16}),
    ("seed_oss", {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True}),
    ("phi3", {}),
    ("gemma", {"head_dim": 16}),
    ("gemma2", {"head_dim": 16}),
    ("gemma2", BIASES),
    ("gemma3_text", {"head_dim": 16}),
    ("gemma3_text", BIASES),
    ("cohere", {}),
    ("cohere", BIASES | {"use_qk_norm": True}),
    ("cohere2", {}),
    ("olmo", {}),
    ("olmo2", {}),
    ("olmo2", BIASES),
    ("olmo3", {}),
    ("exaone4", {"head_dim": 16}),
    ("gpt_oss", {"num_local_experts": 4, "head_dim": 16}),
    ("gpt_oss", {"num_local_experts": 4, "attention_bias": False}),
    ("mixtral", {"num_local_experts": 4, "head_dim": 16}),
    ("minimax_m2", {"num_local_experts": 4, "head_dim": 16}),
    ("phimoe", {"num_local_experts": 4}),
    ("phimoe", BIASES | {"num_local_experts": 4, "lm_head_bias": True}),
    ("qwen2_moe", EXPERTS | SHARED | {"num_experts": 4}),
    ("qwen2_moe", EXPERTS | SHARED | {"num_experts": 4, "qkv_bias": False, "mlp_only_layers": [0]}),
    ("qwen3_moe", EXPERTS | {"num_experts": 4, "head_dim": 16}),
    ("qwen3_moe", EXPERTS | {"num_experts": 4, "decoder_sparse_step": 2}),
    ("stablelm", {}),
    ("stablelm", {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}),
    ("starcoder2", {}),
    ("starcoder2", {"use_bias": False}),
    ("phi", {}),
    ("phi", {"qk_layernorm": True}),
    ("gpt2", {"n_embd": 48, "n_layer": 3, "n_head": 6, "n_positions": 32}),
    ("gpt2", {"n_embd": 48, "n_layer": 3, "n_head": 6, "n_inner": 30}),
    ("deepseek_v2", LATENT),
    ("deepseek_v2", LATENT | BIASES | {"q_lora_rank": None}),
    ("deepseek_v3", LATENT),
    ("deepseek_v3", LATENT | BIASES | {"q_lora_rank": None}),
    ("deepseek_v32", INDEXED),
    ("glm_moe_dsa", INDEXED),
    ("lfm2", CONV),
    ("lfm2", CONV | {"conv_bias": True, "block_auto_adjust_ff_dim": False}),
    ("lfm2", CONV | {"block_multiple_of": 8, "block_ffn_dim_multiplier": 1.5}),
    ("qwen3_next", EXPERTS | SHARED | DELTA | {"num_experts": 4}),
    ("qwen3_5_text", DELTA),
    ("qwen3_5_text", DELTA | BIASES),
    ("qwen3_5_moe_text", EXPERTS | SHARED | DELTA | {"num_experts": 4}),
    (
        "granitemoehybrid",
        MAMBA
        | {
            "layer_types": ["mamba", "attention", "mamba", "attention"],
            "num_local_experts": 4,
            "shared_intermediate_size": 56,
        },
    ),
    (
        "granitemoehybrid",
        MAMBA
        | {
            "layer_types": ["attention"] * 4,
            "num_local_experts": 0,
            "shared_intermediate_size": 56,
        },
    ),
    ("falcon_h1", MAMBA | {"mamba_d_ssm": 96, "head_dim": 16}),
    (
        "falcon_h1",
        MAMBA
        | {
            "mamba_d_ssm": 96,
            "mamba_rms_norm": True,
            "mamba_proj_bias": True,
            "projectors_bias": True,
            "mlp_bias": True,
        },
    ),
    ("nemotron_h", NEMOTRON),
    ("nemotron_h", NEMOTRON | {"use_bias": True, "mlp_bias": True, "use_conv_bias": False}),
    ("nemotron_h", NEMOTRON | {"moe_latent_size": 20, "mlp_bias": True}),
    ("gemma4_text", GEMMA4),
    ("gemma4_text", GEMMA4 | {"hidden_size_per_layer_input": 0, "attention_k_eq_v": True}),
    (
        "gemma4_text",
        GEMMA4 | EXPERTS | {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2},
    ),
    ("gemma4_text", GEMMA4 | {"num_kv_shared_layers": 2, "use_double_wide_mlp": True}),
    ("llama4_text", {"num_local_experts": 4, "head_dim": 16, "interleave_moe_layer_step": 2}),
    ("llama4_text", {"num_local_experts": 4, "head_dim": 16, "moe_layers": [1]}),
)
