"""Exports made while the tests run: the builder of ONNX Runtime GenAI on real and random models."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from pa_models import find_model

SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
"""Of every random model; the smallest whose heads, layers and windows are all different numbers."""


def _hybrid() -> Any:
    text = {
        **SIZES,
        "num_hidden_layers": 4,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    }
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
    return transformers.Qwen3_5Config(
        text_config=text, vision_config={**vision, "out_hidden_size": 128}
    )


def _longrope() -> Any:
    factors = {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
    scaling = {"type": "longrope", "rope_type": "longrope", **factors}
    return transformers.Phi3Config(
        **SIZES, original_max_position_embeddings=512, rope_scaling=scaling
    )


MODELS: dict[str, tuple[str, Any]] = {
    "llama": ("LlamaForCausalLM", lambda: transformers.LlamaConfig(**SIZES)),
    "mistral": (
        "MistralForCausalLM",
        lambda: transformers.MistralConfig(**SIZES, head_dim=32, sliding_window=64),
    ),
    "qwen2": ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**SIZES)),
    "qwen2_windows": (
        "Qwen2ForCausalLM",
        lambda: transformers.Qwen2Config(
            **SIZES, use_sliding_window=True, sliding_window=64, max_window_layers=1
        ),
    ),
    "qwen3": ("Qwen3ForCausalLM", lambda: transformers.Qwen3Config(**SIZES, head_dim=32)),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", _hybrid),
    "gemma2": (
        "Gemma2ForCausalLM",
        lambda: transformers.Gemma2Config(
            **SIZES, head_dim=32, sliding_window=64, query_pre_attn_scalar=64
        ),
    ),
    "phi3_longrope": ("Phi3ForCausalLM", _longrope),
    "phi3_window": (
        "Phi3ForCausalLM",
        lambda: transformers.Phi3Config(
            **SIZES, original_max_position_embeddings=1024, sliding_window=64
        ),
    ),
    "gpt_oss": (
        "GptOssForCausalLM",
        lambda: transformers.GptOssConfig(
            **SIZES,
            head_dim=32,
            sliding_window=64,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        lambda: transformers.Lfm2Config(
            **SIZES, conv_L_cache=3, layer_types=["conv", "full_attention", "conv"]
        ),
    ),
    "granite": (
        "GraniteForCausalLM",
        lambda: transformers.GraniteConfig(**SIZES, attention_multiplier=0.1),
    ),
    "olmo": ("OlmoForCausalLM", lambda: transformers.OlmoConfig(**SIZES)),
    "phi_partial": (
        "PhiForCausalLM",
        lambda: transformers.PhiConfig(**SIZES, partial_rotary_factor=0.5),
    ),
}
"""Random models: class and configuration."""


@contextmanager
def _quietly() -> Iterator[None]:
    """Let transformers and the builder warn of what is theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        yield


def save_small_model(folder: Path) -> None:
    """Write the small real model as a Hugging Face folder in half precision."""
    path = find_model("smollm2")
    with _quietly():
        read = transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float16
        )
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = type(read)(config).to(torch.float16)
        model.load_state_dict(read.state_dict())
        model.tie_weights()
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name
        ).save_pretrained(folder)


def save_random_model(name: str, folder: Path, tokenizer: Path) -> None:
    """Write a random model with the tokenizer of another folder: the builder copies one."""
    kind, configuration = MODELS[name]
    with _quietly():
        torch.manual_seed(0)
        model = getattr(transformers, kind)(configuration()).to(torch.float16)
        model.save_pretrained(folder)
    for each in ("tokenizer.json", "tokenizer_config.json"):
        (folder / each).write_bytes((tokenizer / each).read_bytes())


def export(source: Path, folder: Path, precision: str = "fp16", **options: str) -> None:
    """Export a Hugging Face folder for CUDA with paged attention, on any machine."""
    builder = importlib.import_module("onnxruntime_genai.models.builder")
    given = {"use_paged_attention": "true", "hf_token": "false", **options}
    words = [f"{key}={value}" for key, value in given.items()]
    paths = ("", str(source), str(folder), precision, "cuda", str(folder.parent / "cache"))
    with _quietly():
        parsed = builder.parse_extra_options(*paths, words)
        builder.create_model(*paths, **parsed)
