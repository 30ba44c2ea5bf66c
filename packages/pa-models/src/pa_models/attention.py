"""One decoder's attention: prepared once a step, run once a layer, over bound caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

import torch
from pa_kernels import PreparedCall, prepare, signature_of
from pa_spec import (
    ContractViolation,
    DecoderState,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedLayer,
    StepInputs,
)
from torch import Tensor

from pa_models.model_config import ModelConfig
from pa_models.rope import depends_on_length, rotary_tables
from pa_models.rotation import RowRotation


@dataclass(frozen=True, slots=True)
class QkNorm:
    """Gains of one layer's query and key normalization, [D] each, None in models without it."""

    query: Tensor | None = None
    key: Tensor | None = None


@dataclass(frozen=True, slots=True)
class _BoundLayer:
    cache: PagedLayer[Tensor]
    norm: QkNorm


@final
class PagedSelfAttention:
    """Attention over the paged caches of one decoder.

    Life cycle: made by the decoder's `bind`; `begin` once a step, then `StepAttention.run` once
    for each layer in order. Counts which backend served how many calls.
    """

    def __init__(
        self,
        config: ModelConfig,
        norms: Sequence[QkNorm],
        state: DecoderState[Tensor],
        dtype: torch.dtype,
    ) -> None:
        self.config = config
        _check_caches(config, state, dtype)
        self.layers = tuple(
            _BoundLayer(state.paged[index], norm) for index, norm in enumerate(norms)
        )
        device = state.paged[0].key.device
        self.rotates_outside = depends_on_length(config.rope)
        self.cos: Tensor | None = None
        self.sin: Tensor | None = None
        if not self.rotates_outside:
            positions = min(config.context_tokens, state.num_blocks * state.block_size)
            cos, sin = rotary_tables(config.rope, positions)
            self.cos, self.sin = cos.to(device, dtype), sin.to(device, dtype)
        self._attributes = {window: self._attributes_of(window) for window in set(config.windows)}
        self._calls: Counter[str] = Counter()

    @property
    def calls(self) -> Mapping[str, int]:
        """How many layer calls each backend has served."""
        return MappingProxyType(self._calls)

    def begin(self, inputs: StepInputs[Tensor]) -> StepAttention:
        """Start a step."""
        return StepAttention(self, inputs)

    def prepare(self, window: int, inputs: PagedAttentionInputs[Tensor]) -> PreparedCall:
        """Select and size the backend for the layers with this window."""
        return prepare(signature_of(inputs, self._attributes[window]))

    def count(self, backend: str) -> None:
        """Note one layer call."""
        self._calls[backend] += 1

    def _attributes_of(self, window: int) -> PagedAttentionAttributes:
        config = self.config
        return PagedAttentionAttributes(
            num_heads=config.num_heads,
            kv_num_heads=config.kv_num_heads,
            local_window_size=window,
            do_rotary=0 if self.rotates_outside else 1,
            qk_norm_epsilon=config.norm_epsilon,
        )


@final
class StepAttention:
    """One step's prepared calls, one for each distinct window."""

    def __init__(self, attention: PagedSelfAttention, inputs: StepInputs[Tensor]) -> None:
        self._attention = attention
        self._inputs = inputs
        self._prepared: dict[int, PreparedCall] = {}
        rotates = attention.rotates_outside
        self._rotation = RowRotation(attention.config, inputs) if rotates else None

    def run(self, index: int, qkv: Tensor) -> Tensor:
        """Store and attend for one layer.

        qkv: [T, (H+2K)*D], may be changed. Returns [T, H*D].
        """
        attention = self._attention
        layer = attention.layers[index]
        window = attention.config.windows[index]
        norm, step = layer.norm, self._inputs
        if self._rotation is not None:
            qkv, norm = self._rotation.apply(qkv, norm.query, norm.key), QkNorm()
        call_inputs = PagedAttentionInputs(
            query=qkv,
            key=None,
            value=None,
            key_cache=layer.cache.key,
            value_cache=layer.cache.value,
            cumulative_sequence_length=step.cumulative_sequence_length,
            past_seqlens=step.past_seqlens,
            block_table=step.block_table,
            cos_cache=attention.cos,
            sin_cache=attention.sin,
            slot_mapping=step.slot_mapping,
            q_norm_weight=norm.query,
            k_norm_weight=norm.key,
            attention_metadata=step.attention_metadata,
        )
        prepared = self._prepared.get(window)
        if prepared is None:
            prepared = self._prepared[window] = attention.prepare(window, call_inputs)
        attention.count(prepared.backend)
        return prepared.run(call_inputs).output


def _check_caches(config: ModelConfig, state: DecoderState[Tensor], dtype: torch.dtype) -> None:
    expected = (state.num_blocks, state.block_size, config.kv_num_heads, config.head_size)
    for index in range(config.num_layers):
        layer = state.paged.get(index)
        if layer is None:
            raise ContractViolation("V27", f"layer {index}", "a key and a value cache", "none")
        for name, cache in (("key_cache", layer.key), ("value_cache", layer.value)):
            if cache is None:
                raise ContractViolation("V27", f"layer {index} {name}", "a tensor", "none")
            if tuple(cache.shape) != expected:
                found = str(list(cache.shape))
                raise ContractViolation("V30", f"layer {index} {name}", f"{list(expected)}", found)
            if cache.dtype != dtype:
                found = str(cache.dtype)
                raise ContractViolation("V98", f"layer {index} {name}", f"{dtype}", found)
