"""Weights of a Llama-family model: read, checked, converted and fused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from pa_spec import InputUnusable
from torch import Tensor

from pa_models.checkpoint import TensorSource
from pa_models.model_config import ModelConfig

# Narrower types come with scales, which only their own formats explain.
_STORED = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Projections are [out features, in features]; biases are None where absent.

    qkv: query, key and value rows in this order. gate_up: gate rows, then up rows.
    query_norm, key_norm: [head_size], only in models with QK-norm.
    """

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """All weights. head is the same tensor as embedding when they are tied.

    layers: in order, to be gone through once: each is read when its turn comes, so that a decoder
    that packs them never holds two copies of all.
    """

    embedding: Tensor  # [V, hidden]
    layers: Iterable[LayerWeights]
    final_norm: Tensor  # [hidden]
    head: Tensor  # [V, hidden]


def load_weights(
    source: TensorSource,
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
) -> ModelWeights:
    """Read the weights, in `dtype` on `device`; layers follow as they are asked for.

    Raises InputUnusable naming the tensor and both shapes when one is missing or misshapen.
    """
    surplus = f"model.layers.{config.num_layers}.input_layernorm.weight"
    if source.has(surplus):
        problem = f"holds {surplus} although the configuration has {config.num_layers} layers"
        raise InputUnusable(source.name, problem, "as many layers as num_hidden_layers says")
    reader = _Reader(source, dtype, device)
    embedding, head = _embeddings(source, reader, config)
    return ModelWeights(
        embedding=embedding,
        layers=(
            _layer(reader, config, f"model.layers.{index}.") for index in range(config.num_layers)
        ),
        final_norm=reader.tensor("model.norm.weight", (config.hidden_size,)),
        head=head,
    )


def _embeddings(
    source: TensorSource, reader: _Reader, config: ModelConfig
) -> tuple[Tensor, Tensor]:
    """Read the input and output embeddings.

    With the tie flag either one stands for both; two stored tensors that differ are not tied,
    whatever the flag says. Without the flag both must be there.
    """
    names = ("model.embed_tokens.weight", "lm_head.weight")
    shape = (config.vocab_size, config.hidden_size)
    if config.has_tied_embeddings and not all(map(source.has, names)):
        tied = reader.tensor(names[0] if source.has(names[0]) else names[1], shape)
        return tied, tied
    embedding, head = (reader.tensor(name, shape) for name in names)
    if config.has_tied_embeddings and torch.equal(embedding, head):
        return embedding, embedding
    return embedding, head


def _layer(reader: _Reader, config: ModelConfig, prefix: str) -> LayerWeights:
    hidden, inner = config.hidden_size, config.intermediate_size
    query = config.num_heads * config.head_size
    key = config.kv_num_heads * config.head_size
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    qkv = ((f"{attention}q_proj", query), (f"{attention}k_proj", key), (f"{attention}v_proj", key))
    gate_up = ((f"{mlp}gate_proj", inner), (f"{mlp}up_proj", inner))
    output = ((f"{attention}o_proj", hidden),)
    down = ((f"{mlp}down_proj", hidden),)
    norms = ("q_norm.weight", "k_norm.weight") if config.has_qk_norm else ()
    qk_norms = [reader.tensor(attention + name, (config.head_size,)) for name in norms]
    return LayerWeights(
        attention_norm=reader.tensor(f"{prefix}input_layernorm.weight", (hidden,)),
        qkv=reader.stacked(qkv, hidden),
        qkv_bias=reader.biases(qkv) if config.has_qkv_bias else None,
        output=reader.stacked(output, query),
        output_bias=reader.biases(output) if config.has_output_bias else None,
        mlp_norm=reader.tensor(f"{prefix}post_attention_layernorm.weight", (hidden,)),
        gate_up=reader.stacked(gate_up, hidden),
        gate_up_bias=reader.biases(gate_up) if config.has_mlp_bias else None,
        down=reader.stacked(down, inner),
        down_bias=reader.biases(down) if config.has_mlp_bias else None,
        query_norm=qk_norms[0] if qk_norms else None,
        key_norm=qk_norms[1] if qk_norms else None,
    )


@final
class _Reader:
    """Reads tensors of known shape in one element type onto one device."""

    def __init__(self, source: TensorSource, dtype: torch.dtype, device: torch.device) -> None:
        self._source = source
        self._dtype = dtype
        self._device = device

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._source.read(name)
        if tuple(tensor.shape) != shape:
            problem = f"tensor {name} has shape {list(tensor.shape)}"
            raise InputUnusable(self._source.name, problem, f"shape {list(shape)}")
        if tensor.dtype not in _STORED:
            problem = f"tensor {name} has element type {tensor.dtype}"
            raise InputUnusable(self._source.name, problem, "float32, bfloat16 or float16")
        return tensor.to(device=self._device, dtype=self._dtype).contiguous()

    def stacked(self, parts: Sequence[tuple[str, int]], width: int) -> Tensor:
        return torch.cat([self.tensor(f"{name}.weight", (rows, width)) for name, rows in parts])

    def biases(self, parts: Sequence[tuple[str, int]]) -> Tensor:
        return torch.cat([self.tensor(f"{name}.bias", (rows,)) for name, rows in parts])
