"""Variants of small configurations of hybrids: those that resolve, and those that cannot."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hybrid_configs import SMALL


@dataclass(frozen=True)
class Variant:
    """A small configuration with some keys changed; finding: the violation that refuses it."""

    name: str
    config: dict[str, Any]
    finding: str = ""


def _without(family: str, *keys: str) -> Variant:
    config = copy.deepcopy(SMALL[family])
    for key in keys:
        config.pop(key, None)
    return Variant(f"{family}: without {', '.join(keys)}", config)


def _with(family: str, name: str = "", /, **values: Any) -> Variant:
    config = copy.deepcopy(SMALL[family]) | values
    said = name or ", ".join(f"{key}={value}" for key, value in values.items())
    return Variant(f"{family}: {said}", config)


def _nested(
    model_type: str, architecture: str, family: str, outer: Mapping[str, Any], /, **values: Any
) -> Variant:
    inside = copy.deepcopy(SMALL[family]) | values
    del inside["architectures"]
    if values.get("model_type", "") is None:
        del inside["model_type"]
    config = {"model_type": model_type, "architectures": [architecture], "text_config": inside}
    said = ", ".join(f"{key}={value}" for key, value in {**outer, **values}.items())
    return Variant(f"{model_type}: {said}", config | dict(outer))


def _yarn(factor: float, **more: Any) -> dict[str, Any]:
    return {"type": "yarn", "factor": factor, "original_max_position_embeddings": 64, **more}


_GEMMA4_ROPES = {
    "sliding_attention": {"rope_theta": 5000.0},
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 70000.0},
}
_STEP = {"original_max_position_embeddings": 64}
_BETA = {"llama_4_scaling_beta": 0.1}

VARIANTS: tuple[Variant, ...] = (
    *(Variant(f"{name}: as it is", config) for name, config in SMALL.items()),
    # Latent attention: widths, ranks, the scale with and without a temperature.
    _without("deepseek3", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    _without("deepseek2", "num_key_value_heads"),
    _with("deepseek2", num_key_value_heads=None, q_lora_rank=None),
    _with("deepseek3", q_lora_rank=None, first_k_dense_replace=4),
    _with("deepseek3", qk_nope_head_dim=0),
    _with("deepseek3", rope_interleave=False),
    _with("deepseek3", rope_scaling=_yarn(4.0)),
    _with("deepseek3", rope_scaling=_yarn(4.0, mscale_all_dim=0.5)),
    _with("deepseek3", rope_scaling=_yarn(4.0, mscale=0.8, mscale_all_dim=1.2)),
    _with("deepseek3", rope_scaling=_yarn(4.0, mscale_all_dim=0)),
    _with("deepseek3", rope_scaling=_yarn(1.0, mscale_all_dim=1.0)),
    _with("deepseek3", rope_scaling={"type": "linear", "factor": 2.0, "mscale_all_dim": 1.0}),
    _with("deepseek3", rope_parameters={"rope_type": "default", "rope_theta": 7.0}),
    _with("deepseek3", head_dim=8),
    _with("deepseek32", head_dim=128, index_topk=4096),
    _with("glm", indexer_types=["full", "shared", "full", "shared"]),
    *(
        _with("deepseek3", num_attention_heads=heads, num_key_value_heads=heads)
        for heads in (1, 2, 8, 12, 16)
    ),
    # Linear attention.
    _with("next", full_attention_interval=2),
    _with("next", layer_types=["full_attention"] * 3 + ["linear_attention"]),
    _with("next", layer_types=["mamba", "attention", "mamba", "attention"]),
    _with("next", partial_rotary_factor=0.5),
    _with("next", rope_parameters={"rope_theta": 9.0, "partial_rotary_factor": 1.0}),
    _with("next", rope_scaling=_yarn(4.0), partial_rotary_factor=0.5),
    _with("next", linear_conv_kernel_dim=1),
    _with("next", linear_conv_kernel_dim=7, tie_word_embeddings=True),
    _with("qwen35", rope_parameters={"rope_type": "default", "rope_theta": 11.0}),
    _nested("qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen35", {}),
    _nested(
        "qwen3_5",
        "Qwen3_5ForConditionalGeneration",
        "qwen35",
        {"tie_word_embeddings": True, "vision_config": {"depth": 1, "model_type": "qwen3_5"}},
        model_type=None,
        tie_word_embeddings=False,
        eos_token_id=[3, 4],
    ),
    _nested("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen35", {}, model_type="x"),
    # Convolutions.
    _with("lfm2", full_attn_idxs=[1, 3]),
    _with("lfm2", full_attn_idxs=[]),
    _with("lfm2", layer_types=["conv", "full_attention", "conv", "conv"], conv_L_cache=5),
    _with("lfm2", full_attn_idxs=[0], head_dim=16, tie_embedding=False),
    _with("lfm2", full_attn_idxs=[2], rope_theta=123.0, tie_word_embeddings=False),
    _nested("lfm2_vl", "Lfm2VlForConditionalGeneration", "lfm2", {}, full_attn_idxs=[1]),
    _with("lfm2_moe"),
    _with("lfm2_moe", tie_embedding=False, rope_theta=123.0, conv_L_cache=5),
    _nested(
        "lfm2_vl",
        "Lfm2VlForConditionalGeneration",
        "lfm2",
        {"tie_embedding": False},
        model_type=None,
        full_attn_idxs=[1],
    ),
    _nested("kimi_k25", "Kimi_K25ForConditionalGeneration", "deepseek3", {}),
    # Mamba.
    _with("granite", layer_types=["mamba", "attention"] * 2),
    _with("granite", layers_block_type=["attention"] * 4, attention_multiplier=0.03),
    _with("granite", layer_types=["attention"] * 4, position_embedding_type="rope"),
    _with("granite", layer_types=["attention"] * 4, position_embedding_type="nope"),
    _with("granite", layer_types=["linear_attention"] * 3 + ["full_attention"], mamba_d_head=16),
    _with("granite", layer_types=["attention"] * 4, mamba_n_groups=3, head_dim=16),
    _with("granite", num_key_value_heads=None, layer_types=["attention"] * 4),
    _with("falcon", mamba_d_ssm=None, mamba_d_head="auto"),
    _with("falcon", mamba_d_head=8, mamba_n_groups=2, head_dim=24, mamba_d_conv=2),
    _with("falcon", num_key_value_heads=None, attn_layer_indices=None, tie_word_embeddings=True),
    _with("granite", layer_types=["mamba"] * 4, mamba_d_ssm=8),
    _with("nemotron", hybrid_override_pattern="*"),
    _with("nemotron", tie_word_embeddings=True),
    _with("nemotron", hybrid_override_pattern="MMM", num_hidden_layers=9),
    _with("nemotron", layers_block_type=["attention", "mlp", "mamba"]),
    _with("nemotron", layer_types=["full_attention"], hybrid_override_pattern="M*"),
    _with("nemotron", mamba_n_groups=4, mamba_d_conv=3, num_key_value_heads=4),
    _with("nemotron", attention_head_dim=64, partial_rotary_factor=0.5, rope_theta=3.0),
    _without("nemotron", "hybrid_override_pattern"),
    # Two widths.
    _without("gemma4", "layer_types"),
    _with("gemma4", num_global_key_value_heads=1),
    _with("gemma4", num_global_key_value_heads=None),
    _with("gemma4", rope_scaling=_GEMMA4_ROPES),
    _with("gemma4", num_global_key_value_heads=1, attention_k_eq_v=True),
    _with("gemma4", num_kv_shared_layers=2),
    _with("gemma4", num_kv_shared_layers=1, sliding_window=7),
    _with("gemma4", global_head_dim=8),
    _with("gemma4", rope_parameters=_GEMMA4_ROPES, final_logit_softcapping=12.0),
    _with("gemma4", layer_types=["full_attention", "sliding_attention"] * 2),
    _with("gemma4", per_layer_config={"01": {"head_dim": 24}, "3": {"head_dim": 24}}),
    _with("gemma4", per_layer_config={}),
    _with("gemma4", per_layer_config=None),
    _with("gemma4", use_bidirectional_attention="vision", tie_word_embeddings=False),
    _nested(
        "gemma4",
        "Gemma4ForConditionalGeneration",
        "gemma4",
        {"tie_word_embeddings": False, "vision_config": None, "audio_config": None},
        model_type=None,
    ),
    # Chunks.
    _with("llama4", attention_chunk_size=None),
    _with("llama4", attention_chunk_size=16, no_rope_layers=[0, 2, 1, 0]),
    _with("llama4", no_rope_layers=[], no_rope_layer_interval=2),
    _with("llama4", no_rope_layers=None, use_qk_norm=False, attn_temperature_tuning=False),
    _with("llama4", layer_types=["full_attention", "chunked_attention"] * 2),
    _with("llama4", layer_types=["full_attention"] * 4, no_rope_layers=[1, 1, 0, 1, 0]),
    _with("llama4", num_key_value_heads=4, rope_theta=77.0),
    _with("llama4", no_rope_layers=[0, 0, 0, 0]),
    *(
        _nested(
            "llama4",
            "Llama4ForConditionalGeneration",
            "llama4",
            {"tie_word_embeddings": outer},
            tie_word_embeddings=inner,
        )
        for outer, inner in ((True, False), (False, True))
    ),
    # A rotated part in channels.
    _with("minimax", rotary_dim=8),
    _with("minimax", rotary_dim=8, partial_rotary_factor=1.0),
    _with("minimax", partial_rotary_factor=0.25),
    _with("minimax", rotary_dim=None, rope_parameters={"rope_theta": 5.0}),
    _with("minimax", rotary_dim=4, rope_scaling={"type": "linear", "factor": 2.0}),
    # Queries scaled by position.
    _with("ministral3", sliding_window=9),
    _nested("mistral3", "Mistral3ForConditionalGeneration", "ministral3", {}),
    _nested(
        "mistral3",
        "Mistral3ForConditionalGeneration",
        "ministral3",
        {"tie_word_embeddings": False},
        tie_word_embeddings=True,
    ),
)

FAILING: tuple[Variant, ...] = tuple(
    Variant(f"{each.name}: {finding}", each.config, finding)
    for finding, each in (
        ("config.not_a_number", _with("deepseek3", kv_lora_rank=None)),
        ("config.not_a_number", _with("deepseek3", kv_lora_rank="16")),
        ("config.contradiction", _with("deepseek3", num_key_value_heads=2)),
        ("config.contradiction", _with("deepseek3", num_key_value_heads=1)),
        ("config.contradiction", _with("deepseek3", head_dim=16)),
        ("config.out_of_range", _with("deepseek3", qk_rope_head_dim=0)),
        ("config.not_a_number", _with("deepseek32", q_lora_rank=None)),
        ("config.unknown_value", _with("deepseek3", layer_types=["linear_attention"] * 4)),
        ("config.unknown_value", _with("glm", layer_types=["full_attention"] * 4)),
        ("config.contradiction", _with("glm", index_head_dim=4)),
        (
            "config.missing",
            _with("deepseek3", rope_scaling=_yarn(1.0, mscale_all_dim=1.0) | {"factor": None}),
        ),
        ("config.contradiction", _with("deepseek2", hidden_size=30)),
        ("config.not_a_number", _with("next", full_attention_interval=None)),
        ("config.out_of_range", _with("next", full_attention_interval=0)),
        ("config.unknown_value", _with("next", layer_types=["conv"] * 3 + ["full_attention"])),
        ("config.contradiction", _with("next", layer_types=["full_attention"] * 3)),
        ("config.contradiction", _with("next", linear_num_value_heads=3)),
        ("config.contradiction", _with("next", linear_num_key_heads=4, linear_num_value_heads=2)),
        ("config.not_a_number", _with("lfm2", conv_L_cache="3")),
        ("config.missing", _without("lfm2_moe", "layer_types")),
        ("config.unknown_value", _with("lfm2", layer_types=["sliding_attention"] * 4)),
        ("config.unknown_value", _with("granite", layer_types=["conv"] * 4)),
        ("config.contradiction", _with("granite", mamba_n_heads=3)),
        ("config.contradiction", _with("granite", mamba_d_head=3, layer_types=["attention"] * 4)),
        ("config.contradiction", _with("granite", mamba_n_groups=3)),
        ("config.contradiction", _with("falcon", layer_types=["hybrid"] * 4)),
        ("config.contradiction", _with("falcon", mamba_d_ssm=30)),
        ("config.unknown_value", _with("nemotron", hybrid_override_pattern="M*Xm")),
        ("config.unknown_value", _with("nemotron", hybrid_override_pattern="M* E")),
        ("config.unknown_value", _with("nemotron", layer_types=["mamba", "conv"])),
        ("config.contradiction", _with("nemotron", n_groups=3)),
        ("config.not_a_number", _with("nemotron", head_dim=None)),
        ("config.contradiction", _with("gemma4", num_kv_shared_layers=3)),
        ("config.contradiction", _with("gemma4", num_kv_shared_layers=5)),
        ("config.out_of_range", _with("gemma4", num_kv_shared_layers=-1)),
        ("config.unknown_value", _with("gemma4", layer_types=["conv"] * 3 + ["full_attention"])),
        ("config.not_a_number", _with("gemma4", sliding_window=None)),
        ("config.wrong_type", _with("gemma4", attention_k_eq_v=None)),
        ("config.missing", _with("gemma4", rope_scaling={"rope_type": "default"})),
        ("config.not_a_number", _with("gemma4", global_head_dim=None)),
        ("config.contradiction", _with("gemma4", per_layer_config={"1": {"head_dim": 24}})),
        ("config.out_of_range", _with("gemma4", per_layer_config={"4": {"head_dim": 24}})),
        (
            "V2",
            _with("gemma4", num_global_key_value_heads=3, attention_k_eq_v=True),
        ),
        ("config.contradiction", _with("llama4", no_rope_layers=[1, 0])),
        ("config.contradiction", _with("llama4", no_rope_layers=[1, 0, 1, 0, 1])),
        ("config.out_of_range", _with("llama4", no_rope_layer_interval=0)),
        ("config.wrong_type", _with("llama4", attn_temperature_tuning=4)),
        (
            "config.contradiction",
            _with("llama4", attention_chunk_size=None, layer_types=["chunked_attention"] * 4),
        ),
        ("config.out_of_range", _with("llama4", attention_chunk_size=0)),
        ("config.unknown_value", _with("llama4", layer_types=["sliding_attention"] * 4)),
        ("config.not_a_number", _with("llama4", num_key_value_heads=None)),
        ("config.not_a_number", _with("nemotron", num_key_value_heads=None)),
        ("config.missing", _with("ministral3", rope_parameters={"rope_theta": 5.0} | _STEP)),
        ("config.missing", _with("ministral3", rope_parameters={"rope_theta": 5.0} | _BETA)),
    )
)
