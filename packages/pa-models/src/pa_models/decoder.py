"""Decoders of the Llama family on paged attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from pa_spec import (
    DecoderConfig,
    DecoderState,
    ElementType,
    EngineFailed,
    GroupKind,
    StateGroup,
    StateManifest,
    StepInputs,
)
from torch import Tensor
from torch.nn import functional

from pa_models.attention import PagedSelfAttention, QkNorm
from pa_models.model_config import ModelConfig
from pa_models.projection import make_projection
from pa_models.threads import threads_for
from pa_models.weights import LayerWeights, ModelWeights

_ELEMENT_TYPES = {
    torch.float32: ElementType.FLOAT32,
    torch.bfloat16: ElementType.BFLOAT16,
    torch.float16: ElementType.FLOAT16,
}


@final
class LlamaDecoder:
    """A Llama, Mistral, SmolLM2, Qwen2 or Qwen3 model (pa_spec.Decoder).

    Life cycle: construct, `bind` the cache tensors once, then `forward` once a step. Only the
    rows that a step asks for pass the last layer's MLP, the final norm and the output projection.
    """

    def __init__(
        self, config: ModelConfig, weights: ModelWeights, eos_token_ids: tuple[int, ...] = ()
    ) -> None:
        self.model_config = config
        self._embedding = weights.embedding
        self._layers = tuple(_Layer(each, config.norm_epsilon) for each in weights.layers)
        self._final_norm = _Norm(weights.final_norm, config.norm_epsilon)
        self._head = make_projection(weights.head)
        self._attention: PagedSelfAttention | None = None
        self._config = DecoderConfig(
            vocab_size=config.vocab_size,
            context_length=config.context_tokens,
            eos_token_ids=eos_token_ids or config.eos_token_ids,
        )

    def __repr__(self) -> str:
        config = self.model_config
        return (
            f"LlamaDecoder(family={config.family!r}, layers={config.num_layers}, "
            f"hidden={config.hidden_size}, vocab={config.vocab_size}, dtype={self.dtype})"
        )

    @property
    def dtype(self) -> torch.dtype:
        """Element type of weights, activations and caches."""
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are and steps run."""
        return self._embedding.device

    @property
    def config(self) -> DecoderConfig:
        """Vocabulary, limits and abilities."""
        return self._config

    @property
    def manifest(self) -> StateManifest:
        """One paged group: every layer keeps keys and values of the model's own type."""
        config = self.model_config
        group = StateGroup(
            kind=GroupKind.PAGED_KV,
            layer_ids=tuple(range(config.num_layers)),
            row_shape=(config.kv_num_heads, config.head_size),
            element_type=_ELEMENT_TYPES[self.dtype],
        )
        return StateManifest((group,))

    @property
    def step_bytes(self) -> int:
        """Bytes of the weights that every step reads, whatever its rows."""
        config = self.model_config
        heads = 2 * config.num_heads + 2 * config.kv_num_heads
        layer = config.hidden_size * (heads * config.head_size + 3 * config.intermediate_size)
        elements = config.num_layers * layer + config.vocab_size * config.hidden_size
        return elements * self._embedding.element_size()

    @property
    def attention_backends(self) -> Mapping[str, int]:
        """How many layer calls each attention backend has served since `bind`."""
        return {} if self._attention is None else dict(self._attention.calls)

    def bind(self, state: DecoderState[Tensor]) -> None:
        """Take the cache tensors, [N, S, K, D] for each layer, before the first step."""
        norms = [layer.qk_norm for layer in self._layers]
        self._attention = PagedSelfAttention(self.model_config, norms, state, self.dtype)

    @torch.inference_mode()
    def forward(self, inputs: StepInputs[Tensor]) -> Tensor:
        """Run one step; logits [len(logits_rows), V] float32."""
        if self._attention is None:
            raise EngineFailed("forward before bind: the decoder has no cache tensors")
        with threads_for(len(inputs.input_ids)):
            return self._forward(inputs, self._attention)

    def _forward(self, inputs: StepInputs[Tensor], layers: PagedSelfAttention) -> Tensor:
        attention = layers.begin(inputs)
        stream = functional.embedding(inputs.input_ids, self._embedding)  # [T, hidden]
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            attended = attention.run(index, layer.project_qkv(stream))
            if index == last:
                rows = inputs.logits_rows
                attended, stream = attended.index_select(0, rows), stream.index_select(0, rows)
            layer.finish(stream, attended)
        return self._head(self._final_norm(stream)).float()


@final
class _Norm:
    """Root-mean-square normalization with a gain."""

    __slots__ = ("_epsilon", "_shape", "_weight")

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self._weight = weight
        self._shape = tuple(weight.shape)
        self._epsilon = epsilon

    def __call__(self, rows: Tensor) -> Tensor:
        return functional.rms_norm(rows, self._shape, self._weight, self._epsilon)


@final
class _Layer:
    """The projections of one layer around its attention."""

    def __init__(self, weights: LayerWeights, epsilon: float) -> None:
        self.qk_norm = QkNorm(weights.query_norm, weights.key_norm)
        self._attention_norm = _Norm(weights.attention_norm, epsilon)
        self._qkv = make_projection(weights.qkv, weights.qkv_bias)
        self._output = make_projection(weights.output, weights.output_bias)
        self._mlp_norm = _Norm(weights.mlp_norm, epsilon)
        self._gate_up = make_projection(weights.gate_up, weights.gate_up_bias)
        self._down = make_projection(weights.down, weights.down_bias)

    def project_qkv(self, stream: Tensor) -> Tensor:
        """Normalize the residual stream and project it to packed [T, (H+2K)*D]."""
        return self._qkv(self._attention_norm(stream))

    def finish(self, stream: Tensor, attended: Tensor) -> None:
        """Add the attention's output and the MLP to the residual stream, in place."""
        stream.add_(self._output(attended))
        gate, up = self._gate_up(self._mlp_norm(stream)).tensor_split(2, dim=1)
        stream.add_(self._down(functional.silu(gate).mul_(up)))
