"""The expected tensors of every family are those that transformers' own models save.

Goal: nothing that a correct checkpoint lacks is asked for, and nothing that it needs is forgotten.
Method: a tiny model of each type is constructed on the meta device; its names and shapes, after the
reverse of what transformers converts when it loads, are compared with what spec/models/tensors.toml
makes of the same configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pa_spec.checker import Findings, Place
from pa_spec.checker.check import check_model
from pa_spec.checker.huggingface.config import resolve_config
from pa_spec.checker.huggingface.expected_tensor import ModelSizes, tensor_groups
from pa_spec.checker.huggingface.family import families
from pa_spec.checker.huggingface.tensor_layout import tensor_layouts, tensor_prefixes
from safetensors_writer import write_folder
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.core_model_loading import revert_weight_conversion

Shapes = dict[str, tuple[int, ...]]

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
    "qk_rope_head_dim": 4,
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


def saved(model_type: str, changes: Mapping[str, Any]) -> tuple[dict[str, Any], Shapes]:
    """A tiny model's configuration as its file has it, and what it saves."""
    config = AutoConfig.for_model(model_type, **{**SMALL, **changes})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors = revert_weight_conversion(model, model.state_dict())
    return config.to_dict(), {name: tuple(each.shape) for name, each in tensors.items()}


def expected(config: Mapping[str, Any]) -> tuple[Shapes, set[str]]:
    """What the contract makes of a configuration; the names that may be left out."""
    findings = Findings()
    meaning = resolve_config(config, findings, Place("config.json"))
    assert meaning is not None, [str(each) for each in findings]
    layout = tensor_layouts()[meaning.family]
    sizes = ModelSizes(layout, meaning, config, families()[meaning.family].defaults)
    shapes: Shapes = {}
    optional = set()
    for group in tensor_groups(layout, sizes, tensor_prefixes(layout)[0], ()):
        for layer in group.layers:
            for tensor in group.of_layer(layer):
                assert None not in tensor.shape, tensor
                shapes[tensor.name] = tuple(each or 0 for each in tensor.shape)
                is_free = tensor.role == "head" and meaning.has_tied_embeddings
                if is_free or not tensor.is_needed:
                    optional.add(tensor.name)
    return shapes, optional


def weight_findings(folder: Path) -> list[str]:
    return [str(each) for each in check_model(folder).findings if each.id.startswith("weights.")]


def case_names() -> Iterator[str]:
    for model_type, changes in CASES:
        yield f"{model_type}-{'-'.join(changes) or 'plain'}"[:60]


@pytest.mark.parametrize(("model_type", "changes"), CASES, ids=case_names())
def test_expected_tensors_are_what_transformers_saves(
    model_type: str, changes: Mapping[str, Any], tmp_path: Path
) -> None:
    config, stored = saved(model_type, changes)

    wanted, optional = expected(config)

    needed = {name: shape for name, shape in wanted.items() if name not in optional}
    assert needed == {name: shape for name, shape in stored.items() if name not in optional}
    assert {name: wanted.get(name) for name in stored} == stored
    tied = config.get("tie_word_embeddings")
    without_head = {name: shape for name, shape in stored.items() if name != "lm_head.weight"}
    folder = write_folder(tmp_path, config, without_head if tied else stored)
    assert weight_findings(folder) == []


def test_every_layout_is_compared_with_transformers() -> None:
    # lfm2_moe has no resolver; kimi_k2 is deepseek_v3 under a name that transformers has not.
    unnamed = {"lfm2_moe", "kimi_k2"}
    assert {model_type for model_type, _ in CASES} == tensor_layouts().keys() - unnamed


@pytest.mark.parametrize(
    ("model_type", "text", "legacy"),
    [
        ("gemma3", GEMMA3, ("model.language_model.", "language_model.model.")),
        ("mistral3", {"head_dim": 16}, ("model.language_model.", "language_model.model.")),
        ("qwen3_5", DELTA, ("model.language_model.", "model.language_model.")),
        ("lfm2_vl", CONV, ("model.language_model.", "model.language_model.")),
    ],
)
def test_decoder_inside_another_model_is_found_under_its_prefix(
    model_type: str, text: Mapping[str, Any], legacy: tuple[str, str], tmp_path: Path
) -> None:
    config = AutoConfig.for_model(model_type, text_config={**SMALL, **text})
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    tensors = revert_weight_conversion(model, model.state_dict())
    stored = {name: tuple(each.shape) for name, each in tensors.items()}
    renamed = {name.replace(*legacy): shape for name, shape in stored.items()}

    for number, shapes in enumerate((stored, renamed)):
        folder = write_folder(tmp_path / f"{number}", config.to_dict(), shapes)
        found = [each for each in weight_findings(folder) if "tied_head" not in each]
        assert found == []
        ends = (".3.input_layernorm.weight", ".3.operator_norm.weight")
        del shapes[next(name for name in shapes if name.endswith(ends))]
        write_folder(folder, config.to_dict(), shapes)
        assert len([each for each in weight_findings(folder) if "weights.missing" in each]) == 1


@pytest.mark.parametrize("shard_bytes", [10**9, 20_000])
@pytest.mark.parametrize("is_tied", [False, True])
def test_what_transformers_writes_conforms(
    *, shard_bytes: int, is_tied: bool, tmp_path: Path
) -> None:
    config = AutoConfig.for_model("llama", **{**SMALL, "tie_word_embeddings": is_tied})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size=shard_bytes)
    assert (tmp_path / "model.safetensors").exists() == (shard_bytes == 10**9)

    report = check_model(tmp_path)

    assert [each.id for each in report.findings] == ["tokenizer.absent"]
    assert report.meaning is not None
    assert report.meaning.weight_bytes == sum(
        each.numel() * each.element_size()
        for name, each in model.state_dict().items()
        if not (is_tied and name == "lm_head.weight")
    )
