"""A decoder of one's own: a Llama model in plain torch, attention over the blocks included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from pa_spec import (
    DecoderConfig,
    DecoderState,
    ElementType,
    GroupKind,
    StateGroup,
    StateManifest,
    StepInputs,
)
from torch import Tensor
from torch.nn.functional import silu


@dataclass(frozen=True)
class Span:
    """One row of a step: its packed tokens, its length afterwards, and its blocks."""

    begin: int
    end: int
    total: int
    blocks: Tensor


class PlainDecoder:
    """Reads a checkpoint's tensors by their names and computes row by row.

    Asks for positions, and gives logits of every packed token: both differ from the default
    decoder on purpose.
    """

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._kv_heads: int = config["num_key_value_heads"]
        self._head_size: int = config["head_dim"]
        self._epsilon: float = config["rms_norm_eps"]
        self.manifest = StateManifest(
            (
                StateGroup(
                    GroupKind.PAGED_KV,
                    tuple(range(self._layers)),
                    (self._kv_heads, self._head_size),
                    ElementType.FLOAT32,
                ),
            )
        )
        self.config = DecoderConfig(
            vocab_size=config["vocab_size"],
            context_length=config["max_position_embeddings"],
            logits_for_chosen_rows=False,
            wants_positions=True,
        )

    def bind(self, state: DecoderState[Tensor]) -> None:
        """Take the caches."""
        self._caches = state.paged
        self._block_size = state.block_size

    def forward(self, inputs: StepInputs[Tensor]) -> Tensor:
        """Return logits of all packed tokens, [T, V]."""
        assert inputs.positions is not None
        spans = [
            Span(begin, end, int(past) + end - begin, table.long())
            for (begin, end), past, table in zip(
                pairwise(inputs.cumulative_sequence_length.tolist()),
                inputs.past_seqlens,
                inputs.block_table,
                strict=True,
            )
        ]
        stream = self._tensors["model.embed_tokens.weight"][inputs.input_ids.long()]
        for layer in range(self._layers):
            normal = self._norm(f"model.layers.{layer}.input_layernorm.weight", stream)
            stream = stream + self._attend(layer, normal, inputs.positions, spans)
            normal = self._norm(f"model.layers.{layer}.post_attention_layernorm.weight", stream)
            gate = silu(self._project(layer, "mlp.gate_proj", normal))
            up = self._project(layer, "mlp.up_proj", normal)
            stream = stream + self._project(layer, "mlp.down_proj", gate * up)
        return self._norm("model.norm.weight", stream) @ self._tensors["lm_head.weight"].T

    def _norm(self, name: str, stream: Tensor) -> Tensor:
        scale = (stream.square().mean(-1, keepdim=True) + self._epsilon).rsqrt()
        return stream * scale * self._tensors[name]

    def _project(self, layer: int, name: str, stream: Tensor) -> Tensor:
        return stream @ self._tensors[f"model.layers.{layer}.{name}.weight"].T

    def _rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn channel pairs (i, i + D/2) by the position's angle; heads: [T, H, D]."""
        half = self._head_size // 2
        frequency = 10000.0 ** (-torch.arange(half) / half)
        angle = positions[:, None, None] * frequency  # [T, 1, D/2]
        first, second = heads[..., :half], heads[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    def _attend(self, layer: int, stream: Tensor, positions: Tensor, spans: list[Span]) -> Tensor:
        """Store the step's keys and values and attend row by row."""
        shape = (len(stream), -1, self._head_size)
        query = self._project(layer, "self_attn.q_proj", stream).view(shape)
        key = self._project(layer, "self_attn.k_proj", stream).view(shape)
        value = self._project(layer, "self_attn.v_proj", stream).view(shape)
        query, key = self._rotate(query, positions), self._rotate(key, positions)
        cache = self._caches[layer]
        assert cache.value is not None
        outputs = []
        for span in spans:
            place = torch.arange(span.total)
            block, slot = span.blocks[place // self._block_size], place % self._block_size
            tokens = slice(span.begin, span.end)
            new = slice(span.total - (span.end - span.begin), span.total)
            cache.key[block[new], slot[new]] = key[tokens]
            cache.value[block[new], slot[new]] = value[tokens]
            seen = place[None, :] <= place[new, None]  # [tokens, total]
            outputs.append(
                self._row(query[tokens], cache.key[block, slot], cache.value[block, slot], seen)
            )
        return self._project(layer, "self_attn.o_proj", torch.cat(outputs).flatten(1))

    def _row(self, query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        """Attend with one row: query [t, H, D], key and value [total, K, D]; returns [t, H, D]."""
        group = self._heads // self._kv_heads
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        scores = torch.einsum("thd,nhd->htn", query, key) * self._head_size**-0.5
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return torch.einsum("htn,nhd->thd", weights, value)
