"""The operator PagedAttention as types: its inputs, attributes, outputs, and a call's signature.

The normative tables are spec/operator/*.toml; the names, order and defaults here equal them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import Generic

from pa_spec.element_type import ElementType
from pa_spec.state import TensorT_co


class KvCacheLayout(Enum):
    """How keys and values are stored (contract section 6)."""

    SEPARATE = "SEPARATE"
    LATENT = "LATENT"


class QuantType(Enum):
    """Granularity of a quantized cache (contract section 8.5)."""

    NONE = "NONE"
    PER_TENSOR = "PER_TENSOR"
    PER_CHANNEL = "PER_CHANNEL"


@dataclass(frozen=True, slots=True)
class PagedAttentionAttributes:
    """Attributes of the operator (contract section 5), with their defaults.

    scale 0 selects 1/sqrt(head_size). local_window_size counts the current token, -1 = no window.
    qk_output: 0 none, 1 scores before the softmax, 2 probabilities.
    """

    num_heads: int
    kv_num_heads: int
    scale: float = 0.0
    softcap: float = 0.0
    local_window_size: int = -1
    do_rotary: int = 0
    rotary_interleaved: int = 0
    qk_norm_epsilon: float = 1e-6
    k_quant_type: str = "NONE"
    v_quant_type: str = "NONE"
    k_cache_dtype: str = ""
    v_cache_dtype: str = ""
    v_head_size: int = 0
    rotary_offset: int = 0
    kv_cache_layout: str = "SEPARATE"
    qk_output: int = 0


@dataclass(frozen=True, slots=True)
class PagedAttentionInputs(Generic[TensorT_co]):
    """Inputs 0 to 18 of the operator, in order (contract section 3).

    query: [T, H*D], or packed [T, (H+2K)*D] when key and value are None. key, value: [T, K*D].
    key_cache, value_cache: [N, S, K, D], updated in place. cumulative_sequence_length: [B+1] int32.
    past_seqlens: [B] int32. block_table: [B, M] int32, -1 = unmapped. cos_cache, sin_cache:
    [positions, rotary_dim/2]. slot_mapping: [T] int32, -1 = do not store. head_sink: [H].
    q_norm_weight, k_norm_weight: [D]. k_scale, v_scale: [1] or [K, 1, D] float32.
    attention_metadata: [2] or [3] int32 on the host. query_positions: [T] int32.
    attention_bias: [B or 1, H or 1, query capacity, context capacity].
    """

    query: TensorT_co
    key: TensorT_co | None
    value: TensorT_co | None
    key_cache: TensorT_co
    value_cache: TensorT_co | None
    cumulative_sequence_length: TensorT_co
    past_seqlens: TensorT_co
    block_table: TensorT_co
    cos_cache: TensorT_co | None = None
    sin_cache: TensorT_co | None = None
    slot_mapping: TensorT_co | None = None
    head_sink: TensorT_co | None = None
    q_norm_weight: TensorT_co | None = None
    k_norm_weight: TensorT_co | None = None
    k_scale: TensorT_co | None = None
    v_scale: TensorT_co | None = None
    attention_metadata: TensorT_co | None = None
    query_positions: TensorT_co | None = None
    attention_bias: TensorT_co | None = None

    def named(self) -> Iterator[tuple[str, TensorT_co | None]]:
        """Yield (name, tensor or None) in the order of the operator's indices."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True, slots=True)
class PagedAttentionOutputs(Generic[TensorT_co]):
    """Outputs of the operator (contract section 4); the caches are the input buffers.

    output: [T, H*Dv]. output_qk: [H, T, max context], None unless qk_output asks for it.
    """

    output: TensorT_co
    output_qk: TensorT_co | None = None


@dataclass(frozen=True, slots=True)
class TensorSignature:
    """What stays constant of a tensor: element type, shape, where it lives, its row stride.

    row_stride: elements between rows of a rank-2 tensor, 0 = contiguous. contiguous_inner: the
    innermost axis has stride 1.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    device: str = "cpu"
    row_stride: int = 0
    contiguous_inner: bool = True


@dataclass(frozen=True, slots=True)
class CallSignature:
    """Everything that backend selection may look at: constant for a captured graph.

    inputs: one entry for each field of PagedAttentionInputs, None where absent.
    metadata: the bounds of attention_metadata (bucketed, 0 = unknown), or None.
    output_qk_type: element type of output 3, None when it is not asked for.
    """

    attributes: PagedAttentionAttributes
    inputs: PagedAttentionInputs[TensorSignature]
    metadata: tuple[int, ...] | None = None
    output_qk_type: ElementType | None = None

    @property
    def device(self) -> str:
        """Kind of device the call runs on: "cpu" or "cuda"."""
        return self.inputs.query.device

    @property
    def num_tokens(self) -> int:
        """Packed tokens (T)."""
        return self.inputs.query.shape[0]

    @property
    def batch_size(self) -> int:
        """Rows (B)."""
        return self.inputs.past_seqlens.shape[0]

    @property
    def head_size(self) -> int:
        """D, read from the key cache."""
        return self.inputs.key_cache.shape[3]
