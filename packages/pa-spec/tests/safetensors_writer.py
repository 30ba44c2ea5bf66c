"""Writes folders of weights that are headers alone: the data behind them is a hole in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

Shapes = Mapping[str, Sequence[int]]

LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""A small model's configuration."""

TOKENS = ("<unk>", "<s>", "</s>", "<|end|>", *(f"token{index}" for index in range(4, 90)))


def llama_shapes() -> dict[str, tuple[int, ...]]:
    """Return the tensors of LLAMA."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (96, 32)}
    for layer in range(3):
        below = f"model.layers.{layer}"
        shapes |= {
            f"{below}.input_layernorm.weight": (32,),
            f"{below}.self_attn.q_proj.weight": (32, 32),
            f"{below}.self_attn.k_proj.weight": (16, 32),
            f"{below}.self_attn.v_proj.weight": (16, 32),
            f"{below}.self_attn.o_proj.weight": (32, 32),
            f"{below}.post_attention_layernorm.weight": (32,),
            f"{below}.mlp.gate_proj.weight": (40, 32),
            f"{below}.mlp.up_proj.weight": (40, 32),
            f"{below}.mlp.down_proj.weight": (32, 40),
        }
    return shapes | {"model.norm.weight": (32,), "lm_head.weight": (96, 32)}


def header_of(shapes: Shapes, element_type: str = "F16", itemsize: int = 2) -> dict[str, Any]:
    """Return the header of tensors that lie one behind the other."""
    header: dict[str, Any] = {}
    begin = 0
    for name, shape in shapes.items():
        end = begin + prod(shape) * itemsize
        header[name] = {"dtype": element_type, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    return header


def write_header(path: Path, header: Mapping[str, Any] | bytes, data_bytes: int = -1) -> None:
    """Write a file of that header; data_bytes: what is behind it, -1 = what its offsets say."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if data_bytes < 0 and not isinstance(header, bytes):
        entries = [each for name, each in header.items() if name != "__metadata__"]
        data_bytes = max((each["data_offsets"][1] for each in entries), default=0)
    with path.open("wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        opened.truncate(8 + len(text) + max(data_bytes, 0))


def write_tokenizer(folder: Path, **changes: Any) -> None:
    """Write a small tokenizer.json and tokenizer_config.json; changes: keys of the latter."""
    added = [
        {"id": index, "content": text, "special": True}
        for index, text in enumerate(TOKENS)
        if text[0] == "<"
    ]
    vocab = {text: index for index, text in enumerate(TOKENS)}
    document = {"model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": added}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    settings = {"eos_token": "</s>", "chat_template": "{{ messages }}{{ eos_token }}"} | changes
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_folder(
    folder: Path, config: Mapping[str, Any] = LLAMA, shapes: Shapes | None = None
) -> Path:
    """Write a folder that conforms: configuration, tokenizer, and one file of weights."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    write_header(folder / "model.safetensors", header_of(shapes or llama_shapes()))
    return folder


def write_shards(folder: Path, shards: Mapping[str, Shapes], **metadata: Any) -> dict[str, str]:
    """Write shards and their index over a folder's single file; return the map it holds."""
    (folder / "model.safetensors").unlink(missing_ok=True)
    weight_map: dict[str, str] = {}
    for file, shapes in shards.items():
        write_header(folder / file, header_of(shapes))
        weight_map |= dict.fromkeys(shapes, file)
    write_index(folder, weight_map, **metadata)
    return weight_map


def write_index(folder: Path, weight_map: Mapping[str, Any], **metadata: Any) -> None:
    """Write an index of that map."""
    document = {"metadata": metadata, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))
