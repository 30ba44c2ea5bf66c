"""Sizes of one call, derived from its signature."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pa_spec import CallSignature, KvCacheLayout


@dataclass(frozen=True, slots=True)
class CallGeometry:
    """Sizes that every backend needs, by the names of the contract.

    v_head_size: effective width of values and of an output head (Dv). context_columns: width of
    output_qk. scale: the softmax multiplier with its default filled in.
    """

    num_tokens: int
    batch_size: int
    num_heads: int
    kv_num_heads: int
    head_size: int
    v_head_size: int
    num_blocks: int
    block_size: int
    table_columns: int
    context_columns: int
    scale: float
    is_packed: bool
    is_latent: bool

    @classmethod
    def of(cls, signature: CallSignature) -> CallGeometry:
        """Derive the sizes of a signature that keeps the contract."""
        attributes, inputs = signature.attributes, signature.inputs
        num_blocks, block_size, kv_num_heads, head_size = inputs.key_cache.shape
        is_latent = attributes.kv_cache_layout == KvCacheLayout.LATENT.value
        table_columns = inputs.block_table.shape[1]
        capacity = table_columns * block_size
        bound = signature.metadata[1] if signature.metadata is not None else 0
        return cls(
            num_tokens=signature.num_tokens,
            batch_size=signature.batch_size,
            num_heads=attributes.num_heads,
            kv_num_heads=kv_num_heads,
            head_size=head_size,
            v_head_size=(attributes.v_head_size if is_latent else 0) or head_size,
            num_blocks=num_blocks,
            block_size=block_size,
            table_columns=table_columns,
            context_columns=min(bound, capacity) if bound > 0 else capacity,
            scale=attributes.scale or 1.0 / math.sqrt(head_size),
            is_packed=inputs.key is None,
            is_latent=is_latent,
        )

    @property
    def output_shape(self) -> tuple[int, int]:
        """Shape of output 0: [T, H*Dv]."""
        return (self.num_tokens, self.num_heads * self.v_head_size)

    @property
    def output_qk_shape(self) -> tuple[int, int, int]:
        """Shape of output 3: [H, T, context columns]."""
        return (self.num_heads, self.num_tokens, self.context_columns)
