"""Hugging Face folders: what is read, and what is refused with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pa_models
import pytest
import torch
from pa_models.testing import PagedRun, tiny_config, write_checkpoint
from pa_spec import InputUnusable
from safetensors.torch import load_file, save_file
from torch import Tensor

PROMPT = [[3, 1, 4, 1, 5, 9, 2, 6]]


def logits(folder: Path, dtype: str = "float32") -> Tensor:
    return PagedRun(pa_models.load_decoder(folder, dtype), 1, 16).step(PROMPT)


def rewrite(folder: Path, changes: dict[str, Tensor | None]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, tensor in changes.items():
        tensors.pop(name, None)
        if tensor is not None:
            tensors[name] = tensor
    save_file(tensors, path)


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(InputUnusable) as caught:
        pa_models.load_model(folder)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"


def test_shards_and_one_file_are_the_same_model(tmp_path: Path) -> None:
    config = tiny_config("qwen3")
    write_checkpoint(tmp_path / "one", config)
    write_checkpoint(tmp_path / "three", config, shards=3)

    assert torch.equal(logits(tmp_path / "one"), logits(tmp_path / "three"))


def test_stored_types_are_converted(tmp_path: Path) -> None:
    config = tiny_config("llama", torch_dtype="bfloat16")
    write_checkpoint(tmp_path / "half", config, dtype=torch.bfloat16)
    tensors = write_checkpoint(tmp_path / "full", config)
    rounded = {name: tensor.bfloat16().float() for name, tensor in tensors.items()}
    save_file(rounded, tmp_path / "full" / "model.safetensors")

    assert torch.equal(logits(tmp_path / "half"), logits(tmp_path / "full"))
    assert pa_models.load_decoder(tmp_path / "half", "auto").dtype == torch.bfloat16
    assert pa_models.load_decoder(tmp_path / "half", "float32").dtype == torch.float32


def test_auto_means_float32_for_float16_checkpoints_on_a_cpu(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama", dtype="float16"), dtype=torch.float16)

    assert pa_models.load_decoder(tmp_path, "auto").dtype == torch.float32


@pytest.mark.parametrize("kept", ["model.embed_tokens.weight", "lm_head.weight"])
def test_either_tied_embedding_stands_for_both(tmp_path: Path, kept: str) -> None:
    tensors = write_checkpoint(tmp_path, tiny_config("llama", tie_word_embeddings=True))
    expected = logits(tmp_path)
    embedding = tensors["model.embed_tokens.weight"]
    rewrite(tmp_path, {"model.embed_tokens.weight": None, "lm_head.weight": None, kept: embedding})

    assert torch.equal(logits(tmp_path), expected)


def test_equal_copies_are_tied_and_different_ones_are_not(tmp_path: Path) -> None:
    tied = tiny_config("llama", tie_word_embeddings=True)
    tensors = write_checkpoint(tmp_path, tied)
    expected = logits(tmp_path)
    embedding = tensors["model.embed_tokens.weight"]

    rewrite(tmp_path, {"lm_head.weight": embedding.clone()})
    assert torch.equal(logits(tmp_path), expected)
    rewrite(tmp_path, {"lm_head.weight": embedding * 2})
    assert torch.allclose(logits(tmp_path), expected * 2, atol=1e-5)


def test_untied_checkpoint_without_output_weights_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    rewrite(tmp_path, {"lm_head.weight": None})

    refused(tmp_path, "lm_head.weight", "missing")


def test_misshapen_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    rewrite(tmp_path, {"model.layers.1.mlp.up_proj.weight": torch.zeros(55, 32)})

    refused(tmp_path, "model.layers.1.mlp.up_proj.weight", "[55, 32]", "[56, 32]")


def test_qk_norm_over_the_whole_projection_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("qwen3"))
    rewrite(tmp_path, {"model.layers.0.self_attn.q_norm.weight": torch.ones(64)})

    refused(tmp_path, "model.layers.0.self_attn.q_norm.weight", "[64]", "[16]")


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_weights_that_need_scales_are_refused(tmp_path: Path, dtype: torch.dtype) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    rewrite(tmp_path, {"model.norm.weight": torch.ones(32).to(dtype)})

    refused(tmp_path, "model.norm.weight", str(dtype), "float32")


def test_missing_shard_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"), shards=2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()

    refused(tmp_path, "model-00002-of-00002.safetensors", "missing")


def test_tensor_missing_from_its_shard_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"), shards=2)
    shard = tmp_path / "model-00001-of-00002.safetensors"
    tensors = load_file(shard)
    lost = min(tensors)
    del tensors[lost]
    save_file(tensors, shard)

    refused(tmp_path, lost, "index")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])

    refused(tmp_path, "model.safetensors", "truncated")


def test_folder_without_weights_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    (tmp_path / "model.safetensors").unlink()

    refused(tmp_path, "holds no weights", "model.safetensors.index.json")


def test_folder_without_config_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "config.json")


def test_folder_without_tokenizer_still_has_a_decoder(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    (tmp_path / "tokenizer.json").unlink()

    refused(tmp_path, "tokenizer.json")
    assert pa_models.load_decoder(tmp_path).config.vocab_size == 300


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "\x00\xff"])
def test_config_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="latin-1")

    refused(tmp_path, "config.json", "JSON")


def test_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere", "no such file or folder", "smollm2")


def test_unknown_dtype_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))

    for name in ("float16", "int4"):
        with pytest.raises(InputUnusable, match="float32, bfloat16, auto"):
            pa_models.load_decoder(tmp_path, name)


@pytest.mark.parametrize(
    ("config_eos", "generation", "expected"),
    [
        (2, None, (2,)),
        ([2, 5, 2], None, (2, 5)),
        (2, {"eos_token_id": [7, 9]}, (7, 9)),
        ([2, 5], {"eos_token_id": 7}, (7,)),
        (2, {"temperature": 0.6}, (2,)),
        (2, {"eos_token_id": None}, (2,)),
        (None, {"eos_token_id": 7}, (7,)),
        (None, None, ()),
    ],
)
def test_generation_config_decides_what_ends_a_turn(
    tmp_path: Path, config_eos: Any, generation: dict[str, Any] | None, expected: tuple[int, ...]
) -> None:
    write_checkpoint(tmp_path, tiny_config("llama", eos_token_id=config_eos))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))

    model = pa_models.load_model(tmp_path)

    assert model.decoder.config.eos_token_ids == expected
    assert model.generation_defaults.eos_token_ids == expected
    assert pa_models.load_decoder(tmp_path).config.eos_token_ids == expected


def test_generation_defaults_keep_what_is_written(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama"))
    written = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8}
    (tmp_path / "generation_config.json").write_text(json.dumps(written))

    defaults = pa_models.load_model(tmp_path).generation_defaults

    assert (defaults.do_sample, defaults.temperature) == (True, 0.7)
    assert (defaults.top_k, defaults.top_p, defaults.repetition_penalty) == (20, 0.8, None)


def test_end_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_config("llama", eos_token_id=300))

    refused(tmp_path, "eos_token_id", "300")


def test_more_layers_than_the_configuration_has_are_refused(tmp_path: Path) -> None:
    config = tiny_config("llama")
    write_checkpoint(tmp_path, config)
    fewer = {**config, "num_hidden_layers": config["num_hidden_layers"] - 1}
    (tmp_path / "config.json").write_text(json.dumps(fewer))

    with pytest.raises(InputUnusable, match=r"model\.layers\.1\.input_layernorm"):
        pa_models.load_decoder(tmp_path)
