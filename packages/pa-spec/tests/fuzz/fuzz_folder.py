"""Target: whole folders, with files of every kind that are cut, changed or odd."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_choices import Choices, changed
from fuzz_config import KEYS
from fuzz_report import checked
from llama_config import LLAMA

EXPORT: dict[str, Any] = {
    "model": {
        "type": "llama",
        "vocab_size": 100,
        "context_length": 1024,
        "eos_token_id": 2,
        "decoder": {
            "filename": "model.onnx",
            "head_size": 16,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "sliding_window": {"window_size": 16, "layers": [0]},
            "inputs": {"input_ids": "input_ids", "past_key_names": "past_key_values.%d.key"},
            "outputs": {"logits": "logits", "present_key_names": "present.%d.key"},
            "state_groups": [{"kind": "paged_kv", "layer_ids": [0, 1]}],
        },
    },
    "search": {"max_length": 1024},
    "engine": {"dynamic_batching": {"block_size": 16, "max_batch_size": 4}},
}
EXPORT_KEYS = (
    "block_table_windowed",
    "state_update",
    "layer_types",
    "position_ids",
    "pipeline",
    "x",
)
HEADER: dict[str, Any] = {
    "model.embed_tokens.weight": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]},
    "model.norm.weight": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
    "__metadata__": {"format": "pt"},
}
INDEX: dict[str, Any] = {
    "metadata": {"total_size": 24},
    "weight_map": {"model.norm.weight": "model.safetensors", "x": "../model.safetensors"},
}
TOKENIZER: dict[str, Any] = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]},
    "added_tokens": [{"id": 2, "content": "</s>", "special": True}],
}
OBJECTS: dict[str, Any] = {
    "config.json": LLAMA,
    "genai_config.json": EXPORT,
    "generation_config.json": {"eos_token_id": [2]},
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": {"eos_token": "</s>", "added_tokens_decoder": {"2": {"content": "x"}}},
    "model.safetensors.index.json": INDEX,
    "special_tokens_map.json": {"eos_token": "</s>"},
    "engine.json": EXPORT["engine"],
}
INNER_KEYS = (*KEYS[:12], *EXPORT_KEYS, "dtype", "shape", "data_offsets", "metadata", "vocab")
FOUND: tuple[bytes, ...] = ()
_FOLDER = TemporaryDirectory()


def seeds() -> Iterator[bytes]:
    """Yield choices of several folders."""
    for index in range(64):
        yield Random(index).randbytes(80)
    yield from FOUND


def one_input(data: bytes) -> None:
    """Fill a folder as the bytes choose, and check it and one of its files."""
    choices = Choices(data)
    folder = Path(_FOLDER.name, "model")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = sorted(OBJECTS)
    for _ in range(1 + choices.number(4)):
        name = choices.one_of(names)
        content = json.dumps(changed(OBJECTS[name], choices, INNER_KEYS)).encode()
        (folder / name).write_bytes(_maybe_cut(content, choices))
    if choices.number(2):
        header = json.dumps(changed(HEADER, choices, INNER_KEYS)).encode()
        claimed = len(header) if choices.number(4) else choices.number(2**16)
        content = struct.pack("<Q", claimed) + header + bytes(24)
        (folder / "model.safetensors").write_bytes(_maybe_cut(content, choices))
    if choices.number(4) == 1:
        (folder / "model.onnx").write_bytes(choices.rest(60))
    checked(folder)
    checked(choices.one_of(sorted(folder.iterdir())))


def _maybe_cut(content: bytes, choices: Choices) -> bytes:
    return content[: choices.number(len(content) + 1)] if choices.number(8) == 1 else content
