"""Which backends would serve a model: one decode step of each kind of layer is asked."""

from __future__ import annotations

from collections.abc import Mapping

from pa_spec.checker.capacity import NO_MANIFEST
from pa_spec.checker.meaning import LayerKind, LayerMeaning, ModelMeaning
from pa_spec.checker.text import ranges
from pa_spec.contract.backend import backend_reasons, backends
from pa_spec.element_type import ElementType
from pa_spec.operator import (
    CallSignature,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    TensorSignature,
)
from pa_spec.validation import validate

_BLOCK_SIZE = 16
_INT32 = ElementType.INT32


def backends_of(meaning: ModelMeaning) -> Mapping[str, str]:
    """Say for each backend, by name, why it would not serve a model's attention; "" = it would.

    The element type is that of the caches, quantized caches are not considered. State that no
    groups hold is a reason for all of them. Empty for a model without attention.
    """
    if meaning.manifest is None:
        return dict.fromkeys(backends(), NO_MANIFEST)
    found: dict[LayerMeaning, list[int]] = {}
    for index, layer in enumerate(meaning.layers):
        if layer.num_heads and layer.kv_num_heads and layer.head_size:
            found.setdefault(layer, []).append(index)
    if not found:
        return {}
    reasons: dict[str, str] = dict.fromkeys(backends(), "")
    for layer, indices in found.items():
        where = "" if len(found) == 1 else f" (layers {ranges(indices)})"
        answers = _reasons(layer, meaning.cache_element_type)
        if 0 < layer.chunk_tokens < meaning.context_tokens:
            answers = dict.fromkeys(backends(), "the operator has no mask of chunks")
        for name, reason in answers.items():
            if reason and not reasons[name]:
                reasons[name] = reason if reason.startswith("pending") else f"{reason}{where}"
    return reasons


def _reasons(layer: LayerMeaning, element_type: ElementType) -> Mapping[str, str]:
    call = decode_step(layer, element_type)
    broken = validate(call)
    if broken:
        return dict.fromkeys(backends(), f"the operator has no such call: {broken[0]}")
    return backend_reasons(call)


def decode_step(layer: LayerMeaning, element_type: ElementType) -> CallSignature:
    """Return the call that one token of one sequence makes in a layer."""
    is_latent = layer.kind is LayerKind.LATENT_ATTENTION
    H, K, D = layer.num_heads, layer.kv_num_heads, layer.head_size
    v_width = layer.v_head_size or D
    new_value = None if is_latent else TensorSignature(element_type, (1, K * v_width))
    value_cache = TensorSignature(element_type, (1, _BLOCK_SIZE, K, v_width))
    weight = TensorSignature(element_type, (D,)) if layer.has_qk_norm else None
    return CallSignature(
        PagedAttentionAttributes(
            H,
            K,
            scale=layer.scale,
            softcap=layer.softcap,
            local_window_size=layer.window,
            v_head_size=layer.v_head_size if is_latent else 0,
            kv_cache_layout="LATENT" if is_latent else "SEPARATE",
        ),
        PagedAttentionInputs(
            query=TensorSignature(element_type, (1, H * D)),
            key=TensorSignature(element_type, (1, K * D)),
            value=new_value,
            key_cache=TensorSignature(element_type, (1, _BLOCK_SIZE, K, D)),
            value_cache=None if is_latent else value_cache,
            cumulative_sequence_length=TensorSignature(_INT32, (2,)),
            past_seqlens=TensorSignature(_INT32, (1,)),
            block_table=TensorSignature(_INT32, (1, 1)),
            head_sink=TensorSignature(element_type, (H,)) if layer.has_sink else None,
            q_norm_weight=weight,
            k_norm_weight=weight,
        ),
    )
