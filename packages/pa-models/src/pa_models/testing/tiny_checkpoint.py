"""Tiny random checkpoints of every family, as Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from pa_spec import InputUnusable
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from pa_models.fields import Fields
from pa_models.model_config import FAMILIES, ModelConfig, read_model_config

_ARCHITECTURE = {family.name: name for name, family in FAMILIES.items()}

SPECIAL_TOKENS = ("<|start|>", "<|end|>")


def tiny_config(family: str, **changes: Any) -> dict[str, Any]:
    """Return the config.json of a small model of one family; changes win.

    Heads are 16 wide, 4 for queries and 2 for keys, in a hidden size of 32.
    """
    if family not in _ARCHITECTURE:
        raise InputUnusable("family", repr(family), ", ".join(_ARCHITECTURE))
    config: dict[str, Any] = {
        "architectures": [_ARCHITECTURE[family]],
        "model_type": family,
        "vocab_size": 300,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "sliding_window": None,
    }
    if family == "qwen2":  # takes its head size from the hidden size
        config |= {"hidden_size": 64}
        del config["head_dim"]
    return config | changes


def random_tensors(config: ModelConfig, seed: int = 0) -> dict[str, Tensor]:
    """Draw every weight of a model, by its Hugging Face name, in float32.

    Norm gains are near 1, the rest is scaled so that activations keep their size.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        values = torch.randn(shape, generator=generator)
        return 1.0 + 0.1 * values if len(shape) == 1 else values / shape[-1] ** 0.5

    tensors = {"model.embed_tokens.weight": draw(config.vocab_size, config.hidden_size)}
    for layer in range(config.num_layers):
        for name, shape in _layer_shapes(config).items():
            tensors[f"model.layers.{layer}.{name}"] = draw(*shape)
    tensors["model.norm.weight"] = draw(config.hidden_size)
    if not config.has_tied_embeddings:
        tensors["lm_head.weight"] = draw(config.vocab_size, config.hidden_size)
    return tensors


def tiny_tokenizer(vocab_size: int = 300) -> tokenizers.Tokenizer:
    """Build a byte-level tokenizer: 256 bytes, the special tokens, then pairs of bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(letters)}
    vocabulary |= {token: 256 + index for index, token in enumerate(SPECIAL_TOKENS)}
    merges = [(first, second) for first in "etao" for second in "nrshdl eiuo"]
    for first, second in merges[: vocab_size - len(vocabulary)]:
        vocabulary.setdefault(first + second, len(vocabulary))
    merges = [pair for pair in merges if "".join(pair) in vocabulary and " " not in pair]
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(token) for token in SPECIAL_TOKENS])
    return backend


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    *,
    seed: int = 0,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Write config.json, tokenizer.json and random weights; return the weights as written."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tiny_tokenizer(config["vocab_size"]).save(str(folder / "tokenizer.json"))
    resolved = read_model_config(Fields("config.json", config))
    tensors = {name: value.to(dtype) for name, value in random_tensors(resolved, seed).items()}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return tensors
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        names = sorted(tensors)[shard::shards]
        save_file({name: tensors[name] for name in names}, folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index)
    return tensors


def _layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = config.num_heads * config.head_size, config.kv_num_heads * config.head_size
    rows = {"q_proj": query, "k_proj": key, "v_proj": key}
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.o_proj.weight": (hidden, query),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    for name, count in rows.items():
        shapes[f"self_attn.{name}.weight"] = (count, hidden)
        if config.has_qkv_bias:
            shapes[f"self_attn.{name}.bias"] = (count,)
    if config.has_output_bias:
        shapes["self_attn.o_proj.bias"] = (hidden,)
    if config.has_mlp_bias:
        counts = {"gate_proj": inner, "up_proj": inner, "down_proj": hidden}
        shapes |= {f"mlp.{name}.bias": (count,) for name, count in counts.items()}
    if config.has_qk_norm:
        shapes |= {f"self_attn.{name}.weight": (config.head_size,) for name in ("q_norm", "k_norm")}
    return shapes
