"""Tiny GGUF files in the layout that conversion tools write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter
from tokenizers import pre_tokenizers
from torch import Tensor

from pa_models.gguf_file import gguf_name
from pa_models.model_config import ModelConfig
from pa_models.testing.tiny_checkpoint import SPECIAL_TOKENS

_CONTROL = 3
_NORMAL = 1


def write_gguf(
    path: Path,
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    changes: Mapping[str, Any] | None = None,
    extra: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a model's weights, given by Hugging Face names, and a byte-level vocabulary.

    Architecture "llama" gets its query and key rows in interleaved order, as conversion tools
    write them. changes: metadata that wins; a value of None leaves the key out. extra: further
    tensors by their GGUF names.
    """
    architecture = "llama" if config.family == "mistral" else config.family
    writer = GGUFWriter(path, architecture)
    metadata = _sizes(config, architecture) | _vocabulary(config) | dict(changes or {})
    for key, value in metadata.items():
        _add(writer, key, value)
    for name, tensor in tensors.items():
        values = tensor.float()
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = config.num_heads if ".q_proj." in name else config.kv_num_heads
            values = values.view(heads, 2, -1, *values.shape[1:]).transpose(1, 2)
            values = values.reshape(tensor.shape)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(values.numpy()))
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _sizes(config: ModelConfig, architecture: str) -> dict[str, Any]:
    sizes = {
        "block_count": config.num_layers,
        "context_length": config.rope.trained_tokens,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.kv_num_heads,
        "attention.key_length": config.head_size,
        "attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "rope.freq_base": config.rope.theta,
        "rope.dimension_count": config.rope.rotary_dim,
    }
    return {f"{architecture}.{key}": value for key, value in sizes.items()}


def _vocabulary(config: ModelConfig) -> dict[str, Any]:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, *SPECIAL_TOKENS]
    tokens += [f"<unused{index}>" for index in range(config.vocab_size - len(tokens))]
    kinds = [_CONTROL if token in SPECIAL_TOKENS else _NORMAL for token in tokens]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": ["t h", "th e"] if "the" in tokens else [],
        "tokenizer.ggml.bos_token_id": tokens.index(SPECIAL_TOKENS[0]),
        "tokenizer.ggml.eos_token_id": tokens.index(SPECIAL_TOKENS[1]),
        "tokenizer.ggml.add_bos_token": False,
    }


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    match value:
        case None | []:
            pass
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)
