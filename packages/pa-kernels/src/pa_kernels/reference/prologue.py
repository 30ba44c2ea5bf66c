"""Everything before attention: split, QK-norm, RoPE, and the stores into the caches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor

from pa_kernels.geometry import CallGeometry
from pa_kernels.reference.quantize import to_cache
from pa_kernels.reference.rope import RotaryPairs, rotate
from pa_kernels.reference.rows import TokenPlaces


@dataclass(frozen=True, slots=True)
class Heads:
    """query: [T, H, D]. key: [T, K, D]. value: [T, K, D], None in LATENT. All computed."""

    query: Tensor
    key: Tensor
    value: Tensor | None


def split_heads(
    inputs: PagedAttentionInputs[Tensor], geometry: CallGeometry, dtype: torch.dtype
) -> Heads:
    """Separate query, key and value heads of either input mode."""
    query, key, value = inputs.query, inputs.key, inputs.value
    if key is None:
        q_width = geometry.num_heads * geometry.head_size
        kv_width = geometry.kv_num_heads * geometry.head_size
        packed = query
        query = packed[:, :q_width]
        key = packed[:, q_width : q_width + kv_width]
        value = packed[:, q_width + kv_width :]
    kv_shape = (geometry.num_tokens, geometry.kv_num_heads, geometry.head_size)
    return Heads(
        query.to(dtype).reshape(geometry.num_tokens, geometry.num_heads, geometry.head_size),
        key.to(dtype).reshape(kv_shape),
        None if value is None else value.to(dtype).reshape(kv_shape),
    )


def normalize_and_rotate(
    heads: Heads,
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    places: TokenPlaces,
) -> Heads:
    """Apply QK-norm, then RoPE, to queries and keys; values pass."""
    query, key, dtype = heads.query, heads.key, heads.query.dtype
    if inputs.q_norm_weight is not None and inputs.k_norm_weight is not None:
        epsilon = attributes.qk_norm_epsilon
        query = _rms_norm(query, inputs.q_norm_weight.to(dtype), epsilon)
        key = _rms_norm(key, inputs.k_norm_weight.to(dtype), epsilon)
    if attributes.do_rotary and inputs.cos_cache is not None and inputs.sin_cache is not None:
        pairs = RotaryPairs(
            cosine=inputs.cos_cache[places.position].to(dtype),
            sine=inputs.sin_cache[places.position].to(dtype),
            first=attributes.rotary_offset,
            interleaved=bool(attributes.rotary_interleaved),
        )
        query, key = rotate(query, pairs), rotate(key, pairs)
    return Heads(query, key, heads.value)


def store(heads: Heads, inputs: PagedAttentionInputs[Tensor], slot: Tensor) -> None:
    """Write the keys and values of every token that has a slot; slot: [T], -1 = none."""
    stored = slot >= 0
    pools = (
        (inputs.key_cache, heads.key, inputs.k_scale),
        (inputs.value_cache, heads.value, inputs.v_scale),
    )
    for cache, values, scale in pools:
        if cache is None or values is None:
            continue
        # Bytes, because indexed assignment does not know every eight-bit float.
        converted = to_cache(values[stored], scale, cache.dtype)
        if cache.element_size() == 1:
            cache, converted = cache.view(torch.uint8), converted.view(torch.uint8)  # noqa: PLW2901
        cache.flatten(0, 1)[slot[stored]] = converted


def _rms_norm(heads: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    mean_square = heads.square().mean(dim=-1, keepdim=True)
    return heads * torch.rsqrt(mean_square + epsilon) * weight
