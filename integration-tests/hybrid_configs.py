"""Small configurations of every kind of hybrid.

Widths are the smallest that the contract takes, so that a variant which transformers constructs
but cannot run fails in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COMMON: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
_LATENT: dict[str, Any] = _COMMON | {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
_DELTA: dict[str, Any] = _COMMON | {
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
_MAMBA: dict[str, Any] = _COMMON | {"mamba_n_heads": 4, "mamba_d_state": 8}


def _small(model_type: str, architecture: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [architecture], **values}


SMALL: Mapping[str, dict[str, Any]] = {
    "deepseek2": _small("deepseek_v2", "DeepseekV2ForCausalLM", _LATENT),
    "deepseek3": _small("deepseek_v3", "DeepseekV3ForCausalLM", _LATENT),
    "deepseek32": _small("deepseek_v32", "DeepseekV32ForCausalLM", _LATENT),
    "glm": _small("glm_moe_dsa", "GlmMoeDsaForCausalLM", _LATENT),
    "next": _small("qwen3_next", "Qwen3NextForCausalLM", _DELTA),
    "qwen35": _small("qwen3_5_text", "Qwen3_5ForCausalLM", _DELTA),
    "lfm2": _small("lfm2", "Lfm2ForCausalLM", _COMMON),
    "lfm2_moe": _small(
        "lfm2_moe",
        "Lfm2MoeForCausalLM",
        _COMMON
        | {
            "layer_types": ["conv", "full_attention"] * 2,
            "moe_intermediate_size": 8,
            "num_dense_layers": 1,
            "num_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "granite": _small(
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        _MAMBA | {"num_local_experts": 0, "shared_intermediate_size": 16},
    ),
    "falcon": _small("falcon_h1", "FalconH1ForCausalLM", _MAMBA | {"mamba_d_ssm": 32}),
    "nemotron": _small(
        "nemotron_h",
        "NemotronHForCausalLM",
        {key: value for key, value in _COMMON.items() if key != "num_hidden_layers"}
        | {
            "head_dim": 8,
            "mamba_num_heads": 4,
            "mamba_head_dim": 8,
            "ssm_state_size": 8,
            "n_groups": 2,
            "moe_intermediate_size": 8,
            "moe_shared_expert_intermediate_size": 8,
            "hybrid_override_pattern": "M*-E",
        },
    ),
    "gemma4": _small(
        "gemma4_text",
        "Gemma4ForCausalLM",
        _COMMON
        | {
            "head_dim": 8,
            "global_head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 32,
        },
    ),
    "llama4": _small(
        "llama4_text",
        "Llama4ForCausalLM",
        _COMMON | {"head_dim": 8, "num_local_experts": 2, "intermediate_size_mlp": 16},
    ),
    "minimax": _small(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        _COMMON | {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "ministral3": _small("ministral3", "Ministral3ForCausalLM", _COMMON | {"head_dim": 8}),
}
