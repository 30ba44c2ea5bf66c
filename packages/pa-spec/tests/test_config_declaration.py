"""Keys that no resolver reads: their types are those that configuration classes declare."""

from __future__ import annotations

from typing import Any

import pytest
from config_cases import resolved, small
from hybrid_samples import GEMMA4, messages
from pa_spec.checker import expected_tensors
from pa_spec.checker.huggingface.config.declaration import declarations, key_types
from pa_spec.checker.huggingface.config.family import families

CONTEXT = {"head_dim": 16}


@pytest.mark.parametrize(
    ("model_type", "key", "value", "message"),
    [
        ("llama", "intermediate_size", None, "an integer, got null (config.not_a_number)"),
        ("llama", "intermediate_size", "96", "an integer, got 96 (config.not_a_number)"),
        ("llama", "intermediate_size", True, "an integer, got true (config.not_a_number)"),
        ("llama", "intermediate_size", 96.0, "an integer, got 96.0 (config.not_a_number)"),
        (
            "llama",
            "intermediate_size",
            -1,
            "an integer from 0 to 2147483647, got -1 (config.out_of_range)",
        ),
        (
            "qwen2_moe",
            "decoder_sparse_step",
            0,
            "an integer from 1 to 2147483647, got 0 (config.out_of_range)",
        ),
        ("qwen2", "sliding_window", "4096", "an integer, got 4096 (config.not_a_number)"),
        ("qwen2_moe", "sliding_window", 4096.5, "an integer, got 4096.5 (config.not_a_number)"),
        ("qwen3", "sliding_window", 4096.5, "an integer, got 4096.5 (config.not_a_number)"),
        ("qwen3_moe", "sliding_window", "4096", "an integer, got 4096 (config.not_a_number)"),
        ("smollm3", "sliding_window", [4096], "an integer, got a list of 1 (config.not_a_number)"),
        ("mixtral", "num_local_experts", "8", "an integer, got 8 (config.not_a_number)"),
        ("llama", "rms_norm_eps", "1e-5", "a finite number, got 1e-5 (config.not_a_number)"),
        ("llama", "rms_norm_eps", float("nan"), "a finite number, got nan (config.not_a_number)"),
        (
            "llama",
            "hidden_act",
            "nope",
            (
                "the name of an activation function, as silu or gelu_pytorch_tanh, "
                "got nope (config.unknown_value)"
            ),
        ),
        ("llama", "hidden_act", 1, "a string, got 1 (config.wrong_type)"),
        ("gemma2", "query_pre_attn_scalar", 1.5, "an integer, got 1.5 (config.not_a_number)"),
        ("llama", "attention_bias", "no", "true or false, got no (config.wrong_type)"),
        (
            "phi3",
            "original_max_position_embeddings",
            None,
            "an integer, got null (config.not_a_number)",
        ),
        ("qwen2_moe", "mlp_only_layers", ["1"], "a list of integers, got a list of 1"),
        ("llama", "pad_token_id", "0", "an integer, got 0 (config.not_a_number)"),
        ("deepseek_v2", "topk_method", 1, "a string, got 1 (config.wrong_type)"),
        ("deepseek_v32", "mlp_layer_types", "dense", "a list of strings, got dense"),
        ("falcon_h1", "mlp_multipliers", [1, None], "a list of finite numbers, got a list of 2"),
    ],
)
def test_value_of_another_type_is_one_violation(
    model_type: str, key: str, value: object, message: str
) -> None:
    config = _of(model_type) | {key: value}

    meaning, findings = resolved(config)

    assert meaning is None
    found = [str(each) for each in findings if each.id.startswith("config.")]
    assert len(found) == 1, found
    assert found[0].startswith(f"config.json: {key}: expected {message}")


def _of(model_type: str) -> dict[str, Any]:
    heads = {"num_key_value_heads": 4} if model_type.startswith("deepseek") else {}
    state = {"mamba_d_ssm": 128, "mamba_n_heads": 8} if model_type == "falcon_h1" else {}
    head_size = CONTEXT if model_type.startswith("qwen3") else {}
    return small(model_type, **heads, **state, **head_size)


@pytest.mark.parametrize(
    ("model_type", "values"),
    [
        ("llama", {"intermediate_size": 0}),
        ("llama", {"num_experts": "eight"}),
        ("llama", {"pad_token_id": None, "bos_token_id": None}),
        ("llama", {"pad_token_id": -1}),
        ("llama", {"rms_norm_eps": 1}),
        ("granite", {"attention_multiplier": 1, "embedding_multiplier": 12}),
        ("qwen2_moe", {"mlp_only_layers": None}),
        ("qwen2", {"sliding_window": None}),
        ("mixtral", {"num_local_experts": 2, "num_experts_per_tok": 2}),
        ("phimoe", {"num_local_experts": 2, "num_experts_per_tok": 8}),
        ("mixtral", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
        ("starcoder2", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
        ("llama", {"is_causal": True, "is_encoder_decoder": False}),
        ("gemma", {"head_dim": 16, "use_bidirectional_attention": False}),
        ("llama", {"use_bidirectional_attention": False}),
        ("llama", {"sliding_window": None, "attention_chunk_size": None}),
        ("llama", {"architectures": ["LlamaModel", "LlamaForCausalLM"]}),
        ("olmo", {"clip_qkv": None}),
    ],
)
def test_value_that_the_class_takes_is_no_finding(model_type: str, values: dict[str, Any]) -> None:
    meaning, findings = resolved(small(model_type, **values))

    assert meaning is not None
    assert findings == ()


def test_key_of_a_family_read_as_another_has_that_ones_type() -> None:
    found = resolved(small("kimi_k2", num_key_value_heads=4, n_routed_experts="384"))[1]

    assert [(each.id, each.name) for each in found if each.id != "hybrid.read_as"] == [
        ("config.not_a_number", "n_routed_experts")
    ]


def test_a_size_that_is_not_written_is_the_class_default() -> None:
    shapes = {each.name: each.shape for each in expected_tensors(small())}
    moe = {each.name: each.shape for each in expected_tensors(small("mixtral"))}

    assert shapes["model.layers.0.mlp.up_proj.weight"] == (11008, 64)
    assert shapes["model.layers.0.mlp.down_proj.weight"] == (64, 11008)
    assert moe["model.layers.0.block_sparse_moe.experts.7.w1.weight"] == (14336, 64)


def test_every_family_of_transformers_has_a_declaration_with_typed_keys() -> None:
    of_their_own = {"kimi_k2", "nemotron-nas"}

    assert set(declarations()) == set(families()) - of_their_own
    for each in declarations().values():
        assert {*each.keys, *each.nullable} <= set(key_types())


@pytest.mark.parametrize("index", [0, 2])
def test_older_name_of_a_layer_type_is_unknown_to_layers_of_two_widths(index: int) -> None:
    types = ["sliding_attention"] * 4
    types[index] = "attention"

    found = messages(GEMMA4 | {"num_hidden_layers": 4, "layer_types": types})

    assert [each for each in found if "layer_types: " in each] == [
        (
            "config.json: layer_types: expected sliding_attention or full_attention, got "
            "attention (config.unknown_value)"
        )
    ]


def test_types_that_a_file_and_its_decoder_give_differently_are_reported() -> None:
    inside = {key: value for key, value in small().items() if key not in ("model_type", "dtype")}
    inside |= {"head_dim": 16, "dtype": "bfloat16"}
    del inside["torch_dtype"]
    outer = {"model_type": "gemma3", "torch_dtype": "float16", "tie_word_embeddings": False}

    meaning, findings = resolved(outer | {"text_config": inside})

    assert meaning is not None
    assert meaning.element_type is not None
    assert meaning.element_type.value == "float16"
    assert [str(each) for each in findings] == [
        (
            "config.json: text_config: dtype: expected what the file's torch_dtype says, which is "
            "used: float16, got bfloat16 (config.disagreement)"
        )
    ]


def test_another_decoder_inside_a_fixed_one_is_reported() -> None:
    inside = small() | {"head_dim": 16}

    meaning, findings = resolved(
        {"model_type": "gemma3", "tie_word_embeddings": False, "text_config": inside}
    )

    assert meaning is not None
    assert [str(each) for each in findings] == [
        (
            "config.json: text_config: model_type: expected gemma3_text: the class takes no other "
            "decoder, got llama (config.ignored)"
        )
    ]


def test_a_decoder_inside_that_is_not_causal_is_refused() -> None:
    inside = small("gemma3_text") | {"head_dim": 16, "is_causal": False}
    outer = {"model_type": "gemma3", "tie_word_embeddings": False}

    meaning, findings = resolved(outer | {"text_config": inside})
    beside, none = resolved(
        outer | {"is_causal": False, "text_config": inside | {"is_causal": True}}
    )

    assert meaning is None
    assert [(each.id, each.place.inside, each.name) for each in findings] == [
        ("config.unsupported", "text_config", "is_causal")
    ]
    assert beside is not None
    assert not none
