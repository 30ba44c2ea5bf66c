"""What configuration files become; what they mean is pa-spec's to say, and tested there."""

from __future__ import annotations

from typing import Any

import pytest
from pa_models.fields import Fields
from pa_models.model_config import ModelConfig, read_model_config
from pa_spec import InputUnusable

SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
    "eos_token_id": 0,
}
MISTRAL = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}
QWEN25 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
}


def read(base: dict[str, Any], **changes: Any) -> ModelConfig:
    return read_model_config(Fields("config.json", base | changes))


def test_smollm2_is_a_llama_with_tied_embeddings() -> None:
    config = read(SMOLLM2)

    assert (config.family, config.head_size, config.num_layers) == ("llama", 64, 30)
    assert config.has_tied_embeddings
    assert not config.has_qkv_bias
    assert config.rope.theta == 100000.0
    assert config.context_tokens == 8192
    assert config.eos_token_ids == (0,)
    assert config.dtype == "bfloat16"


def test_qwen2_has_biases_on_queries_keys_and_values_only() -> None:
    config = read(QWEN25)

    assert config.has_qkv_bias
    assert not config.has_output_bias
    assert not config.has_qk_norm


def test_qwen3_takes_its_head_size_from_the_file() -> None:
    config = read(QWEN3)

    assert config.head_size == 128
    assert config.num_heads * config.head_size == 2048
    assert config.has_qk_norm


def test_llama_biases_follow_their_flags() -> None:
    config = read(SMOLLM2, attention_bias=True)

    assert (config.has_qkv_bias, config.has_output_bias, config.has_mlp_bias) == (True, True, False)
    assert read(SMOLLM2, mlp_bias=True).has_mlp_bias


@pytest.mark.parametrize(
    ("base", "changes", "windows"),
    [
        (MISTRAL, {"sliding_window": None}, {-1: 32}),
        (MISTRAL, {}, {4096: 32}),  # the format's default where the key is absent
        (QWEN25, {}, {-1: 24}),
        (QWEN25, {"use_sliding_window": True}, {-1: 21, 32768: 3}),
        (
            QWEN3,
            {
                "use_sliding_window": True,
                "sliding_window": 64,
                "layer_types": ["sliding_attention", "full_attention"] * 14,
            },
            {64: 14, -1: 14},
        ),
        (SMOLLM2, {"sliding_window": 64}, {-1: 30}),
    ],
)
def test_windows_follow_each_familys_keys(
    base: dict[str, Any], changes: dict[str, Any], windows: dict[int, int]
) -> None:
    config = read(base, **changes)

    assert {window: config.windows.count(window) for window in config.windows} == windows


def test_windowed_layers_come_last() -> None:
    config = read(QWEN25, use_sliding_window=True)

    assert config.windows[20:22] == (-1, 32768)


def test_a_stretched_context_counts() -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}

    config = read(QWEN25, rope_scaling=yarn)

    assert (config.rope.kind, config.rope.factor) == ("yarn", 4.0)
    assert config.context_tokens == 131072


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, ["GemmaForCausalLM", "Qwen3ForCausalLM"]),
        ({"architectures": None, "model_type": "t5"}, ["t5", "MistralForCausalLM"]),
        ({"architectures": "LlamaForCausalLM"}, ["architectures", "a list of strings"]),
        ({"model_type": "mistral"}, ["model_type", "mistral", "llama", "LlamaForCausalLM"]),
        ({"intermediate_size": None}, ["intermediate_size", "an integer", "null"]),
        ({"hidden_act": "gelu"}, ["hidden_act", "'gelu'", "silu"]),
        ({"rope_interleaved": True}, ["rope_interleaved"]),
        ({"quantization_config": {"bits": 4}}, ["quantization_config", "GGUF"]),
        ({"rms_norm_eps": 0}, ["rms_norm_eps"]),
        ({"eos_token_id": [1, -2]}, ["eos_token_id", "[1, -2]"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor", "0.5", "whole heads"]),
    ],
)
def test_what_is_not_served_is_named(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputUnusable) as caught:
        read(SMOLLM2, **changes)

    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_hidden_layers": True},
            "config.json: num_hidden_layers: expected an integer, got true (config.not_a_number)",
        ),
        (
            {"rope_scaling": {"rope_type": "linear"}},
            "config.json: rope_scaling: factor: expected a value, got nothing (config.missing)",
        ),
        (
            {"num_key_value_heads": 2, "tie_word_embeddings": 1},
            (
                "config.json: num_key_value_heads: expected a positive divisor of num_heads=9, "
                "got 2 (V2); tie_word_embeddings: expected true or false, got 1 (config.wrong_type)"
            ),
        ),
    ],
)
def test_the_checkers_mistakes_are_quoted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputUnusable) as caught:
        read(SMOLLM2, **changes)

    assert str(caught.value) == message


def test_few_of_many_mistakes_are_quoted() -> None:
    names = ("hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "head_dim")

    with pytest.raises(InputUnusable) as caught:
        read(SMOLLM2, **dict.fromkeys(names, "many"))

    assert str(caught.value).count("expected an integer, got many") == 3
    assert str(caught.value).endswith("and 2 more, which pa-spec check lists")


def test_doubts_of_the_checker_refuse_nothing() -> None:
    config = read(SMOLLM2, rope_parameters={"rope_type": "default", "rope_theta": 5e5})

    assert config.rope.theta == 5e5
