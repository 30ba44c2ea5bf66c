"""The paged decoder equals a dense model written down from the checkpoint's tensors.

Method: random tiny checkpoints of every family; each sequence runs alone through plain torch with
full attention matrices; the decoder runs the same sequences over paged caches, in chunks, batched.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pa_models
import pytest
import torch
from pa_models.fields import Fields
from pa_models.model_config import ModelConfig, read_model_config
from pa_models.testing import PagedRun, tiny_config, write_checkpoint, write_gguf
from pa_spec import ContractViolation, Decoder, DecoderState, EngineFailed, PagedLayer
from torch import Tensor

TOLERANCE = 2e-4  # float32 sums of up to 64 products in another order, through two layers

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, every bias": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "mistral": ("mistral", {}),
    "mistral, window": ("mistral", {"sliding_window": 5}),
    "qwen2": ("qwen2", {}),
    "qwen2, window from layer 1": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {}),
    "qwen3, head 32, window by type": (
        "qwen3",
        {
            "head_dim": 32,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "smollm2 (one key head in three)": (
        "llama",
        {"num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 48},
    ),
}
SEQUENCES = (
    [5, 9, 200, 31, 7, 7, 254, 18, 3, 77, 120, 4, 6, 91, 33, 2, 41, 40, 8],
    [17],
    [9, 8, 7],
)


@pytest.mark.parametrize("block_size", [16, 256])
@pytest.mark.parametrize("variant", VARIANTS)
def test_paged_decoder_equals_the_dense_model(
    tmp_path: Path, variant: str, block_size: int
) -> None:
    config, tensors = checkpoint(tmp_path, variant)
    decoder = pa_models.load_decoder(tmp_path)
    run = PagedRun(decoder, len(SEQUENCES), 64, block_size)

    logits = run.step(SEQUENCES, all_logits=True)

    expected = torch.cat([dense_logits(config, tensors, sequence) for sequence in SEQUENCES])
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_part_of_each_head_is_rotated_where_a_file_says_so(tmp_path: Path) -> None:
    config, tensors = checkpoint(tmp_path, "llama")
    half = replace(config, rope=replace(config.rope, rotary_dim=config.head_size // 2))
    write_gguf(tmp_path / "half.gguf", half, tensors)
    run = PagedRun(pa_models.load_decoder(tmp_path / "half.gguf"), len(SEQUENCES), 64)

    logits = run.step(SEQUENCES, all_logits=True)

    expected = torch.cat([dense_logits(half, tensors, sequence) for sequence in SEQUENCES])
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)
    whole = torch.cat([dense_logits(config, tensors, sequence) for sequence in SEQUENCES])
    assert not torch.allclose(logits, whole, atol=TOLERANCE)


@pytest.mark.spec("E51", "E75")
@pytest.mark.parametrize("variant", ["llama", "mistral, window", "qwen3"])
def test_chunks_and_batch_mates_change_nothing(tmp_path: Path, variant: str) -> None:
    config, tensors = checkpoint(tmp_path, variant)
    decoder = pa_models.load_decoder(tmp_path)
    run = PagedRun(decoder, 2, 64)
    long, short = SEQUENCES[0], SEQUENCES[2]

    run.step([long[:7], []])
    run.step([long[7:8], short[:2]])
    logits = run.step([long[8:], short[2:]])

    expected = torch.stack([dense_logits(config, tensors, each)[-1] for each in (long, short)])
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_only_wanted_rows_come_back(tmp_path: Path) -> None:
    config, _ = checkpoint(tmp_path, "llama")
    run = PagedRun(pa_models.load_decoder(tmp_path), 3, 32)

    logits = run.step(SEQUENCES)

    assert logits.shape == (3, config.vocab_size)
    assert logits.dtype == torch.float32
    run.rewind(0)
    everything = run.step(SEQUENCES, all_logits=True)
    torch.testing.assert_close(logits, everything[[18, 19, 22]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_follow_each_rows_own_length(tmp_path: Path, kind: str) -> None:
    """One step holds rows below, at and above the switch; each equals its own dense model."""
    scaling = {
        "dynamic": {"rope_type": "dynamic", "factor": 2.0},
        "longrope": {
            "type": "longrope",
            "short_factor": [1.0 + 0.01 * index for index in range(8)],
            "long_factor": [1.0 + 0.5 * index for index in range(8)],
            "original_max_position_embeddings": 16,
        },
    }[kind]
    changes = {"rope_scaling": scaling, "max_position_embeddings": 16 if kind == "dynamic" else 64}
    config, tensors = checkpoint(tmp_path, "qwen3", **changes)
    decoder = pa_models.load_decoder(tmp_path)
    sequences = [SEQUENCES[0][:tokens] for tokens in (15, 16, 17)]

    logits = PagedRun(decoder, 3, 32).step(sequences, all_logits=True)

    expected = torch.cat([dense_logits(config, tensors, each) for each in sequences])
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_bfloat16_stays_near_float32(tmp_path: Path) -> None:
    checkpoint(tmp_path, "llama")
    exact = PagedRun(pa_models.load_decoder(tmp_path), 3, 32).step(SEQUENCES)

    rounded = PagedRun(pa_models.load_decoder(tmp_path, "bfloat16"), 3, 32).step(SEQUENCES)

    # bfloat16 keeps 8 bits; two layers of a residual stream near 1 lose about 3 of 256 parts.
    torch.testing.assert_close(rounded, exact, atol=0.08, rtol=0.05)


def test_compiled_backend_serves_every_layer_on_a_cpu(tmp_path: Path) -> None:
    for dtype in ("float32", "bfloat16"):
        checkpoint(tmp_path, "mistral, window")
        decoder = pa_models.load_decoder(tmp_path, dtype)
        run = PagedRun(decoder, 1, 32)

        run.step([[1, 2, 3]])
        run.step([[4]])

        assert decoder.attention_backends == {"cpu": 4}


def test_decoder_is_one_for_the_engine(tmp_path: Path) -> None:
    config, _ = checkpoint(tmp_path, "qwen3")

    decoder: Decoder[Tensor] = pa_models.load_decoder(tmp_path, "bfloat16")

    assert decoder.config.vocab_size == config.vocab_size
    assert decoder.config.context_length == 512
    assert decoder.config.eos_token_ids == (257,)
    group = decoder.manifest.paged
    assert group is not None
    assert group.row_shape == (2, 16)
    assert group.row_bytes == 2 * 2 * 2 * 16 * 2
    assert "qwen3" in repr(decoder)


def test_forward_before_bind_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, "llama")
    run = PagedRun(pa_models.load_decoder(tmp_path), 1, 16)
    run._decoder = pa_models.load_decoder(tmp_path)

    with pytest.raises(EngineFailed, match="before bind"):
        run.step([[1]])


@pytest.mark.spec("V30", "V98")
def test_caches_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, "llama")
    decoder = pa_models.load_decoder(tmp_path)

    def state(*shape: int, dtype: torch.dtype = torch.float32) -> DecoderState[Tensor]:
        layers = {layer: PagedLayer(*torch.zeros(2, *shape, dtype=dtype)) for layer in range(2)}
        return DecoderState(layers, 16, 4)

    with pytest.raises(ContractViolation, match=r"\[4, 16, 2, 16\].*V30"):
        decoder.bind(state(4, 16, 3, 16))
    with pytest.raises(ContractViolation, match="V98"):
        decoder.bind(state(4, 16, 2, 16, dtype=torch.bfloat16))
    with pytest.raises(ContractViolation, match="layer 0"):
        decoder.bind(DecoderState({}, 16, 4))
    decoder.bind(state(4, 16, 2, 16))


def checkpoint(folder: Path, variant: str, **more: Any) -> tuple[ModelConfig, dict[str, Tensor]]:
    family, changes = VARIANTS[variant]
    config = tiny_config(family, **changes, **more)
    tensors = write_checkpoint(folder, config, seed=sorted(VARIANTS).index(variant))
    return read_model_config(Fields("config.json", config)), tensors


def dense_logits(config: ModelConfig, tensors: dict[str, Tensor], tokens: list[int]) -> Tensor:
    """Logits of every position of one sequence, [n, V], by the textbook."""
    embedding = tensors["model.embed_tokens.weight"]
    stream = embedding[torch.tensor(tokens)]
    for layer in range(config.num_layers):
        part = {
            name.removeprefix(f"model.layers.{layer}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"model.layers.{layer}.")
        }
        hidden = norm(stream, part["input_layernorm.weight"], config)
        stream = stream + dense_attention(config, part, hidden, config.windows[layer])
        hidden = norm(stream, part["post_attention_layernorm.weight"], config)
        gate = linear(part, "mlp.gate_proj", hidden)
        inner = gate * torch.sigmoid(gate) * linear(part, "mlp.up_proj", hidden)
        stream = stream + linear(part, "mlp.down_proj", inner)
    head = tensors.get("lm_head.weight", embedding)
    return norm(stream, tensors["model.norm.weight"], config) @ head.T


def dense_attention(
    config: ModelConfig, part: dict[str, Tensor], hidden: Tensor, window: int
) -> Tensor:
    count, size = len(hidden), config.head_size
    query = linear(part, "self_attn.q_proj", hidden).view(count, -1, size)
    key = linear(part, "self_attn.k_proj", hidden).view(count, -1, size)
    value = linear(part, "self_attn.v_proj", hidden).view(count, -1, size)
    if config.has_qk_norm:
        query = norm(query, part["self_attn.q_norm.weight"], config)
        key = norm(key, part["self_attn.k_norm.weight"], config)
    query, key = rotated(config, query), rotated(config, key)
    position = torch.arange(count)
    distance = position[:, None] - position
    hidden_keys = (distance < 0) | ((distance >= window) if window > 0 else False)
    outputs = []
    for head in range(config.num_heads):
        shared = head // (config.num_heads // config.kv_num_heads)
        scores = query[:, head] @ key[:, shared].T / size**0.5
        weights = scores.masked_fill(hidden_keys, -torch.inf).softmax(-1)
        outputs.append(weights @ value[:, shared])
    return linear(part, "self_attn.o_proj", torch.cat(outputs, dim=-1))


def rotated(config: ModelConfig, heads: Tensor) -> Tensor:
    """Rotate pairs (i, i + R/2) as complex numbers; frequencies in float64."""
    rope, count, pairs = config.rope, len(heads), config.rope.rotary_dim // 2
    exponent = np.arange(pairs) / pairs
    theta, factor = rope.theta, 1.0
    if rope.kind == "dynamic" and count > rope.trained_tokens:
        growth = rope.factor * count / rope.trained_tokens - (rope.factor - 1)
        theta *= growth ** (rope.rotary_dim / (rope.rotary_dim - 2))
    frequency = theta**-exponent
    if rope.kind == "longrope":
        key = "long_factor" if count > rope.original_tokens else "short_factor"
        frequency /= np.array(dict(rope.parameters)[key])
        stretch = rope.trained_tokens / rope.original_tokens
        factor = np.sqrt(1 + np.log(stretch) / np.log(rope.original_tokens))
    turn = factor * np.exp(1j * np.arange(count)[:, None] * frequency)
    first, second = heads[..., :pairs], heads[..., pairs : 2 * pairs]
    turned = torch.complex(first.double(), second.double()) * torch.from_numpy(turn)[:, None]
    return torch.cat([turned.real, turned.imag, heads[..., 2 * pairs :].double()], dim=-1).float()


def norm(rows: Tensor, weight: Tensor, config: ModelConfig) -> Tensor:
    return rows / (rows.square().mean(-1, keepdim=True) + config.norm_epsilon).sqrt() * weight


def linear(part: dict[str, Tensor], name: str, rows: Tensor) -> Tensor:
    product = rows @ part[f"{name}.weight"].T
    return product + part[f"{name}.bias"] if f"{name}.bias" in part else product
