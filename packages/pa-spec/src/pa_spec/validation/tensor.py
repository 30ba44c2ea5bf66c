"""Rules that hold for every tensor: element type, device and strides."""

from __future__ import annotations

from pa_spec.element_type import ElementType
from pa_spec.operator import TensorSignature
from pa_spec.validation.call import ACTIVATION_TYPES, QUANTIZED_TYPES, Call, allowed

_CACHES = ("key_cache", "value_cache")


def check_activation_types(call: Call) -> None:
    """V98 for the tensors of type T, which all have query's element type."""
    inputs = call.inputs
    query = inputs.query.element_type
    if query not in ACTIVATION_TYPES:
        call.report("V98", "query", query.value, allowed=allowed(ACTIVATION_TYPES))
    for name, tensor in (
        ("key", inputs.key),
        ("value", inputs.value),
        ("cos_cache", inputs.cos_cache),
        ("sin_cache", inputs.sin_cache),
        ("head_sink", inputs.head_sink),
        ("q_norm_weight", inputs.q_norm_weight),
        ("k_norm_weight", inputs.k_norm_weight),
        ("attention_bias", inputs.attention_bias),
    ):
        if tensor is not None and tensor.element_type is not query:
            _check_activation(call, name, tensor.element_type)


def check_cache_types(call: Call) -> None:
    """V98 for the caches, their scales and the score output."""
    inputs, scores = call.inputs, call.signature.output_qk_type
    types = ACTIVATION_TYPES + QUANTIZED_TYPES
    key = inputs.key_cache.element_type
    if key not in types:
        call.report("V98", "key_cache", key.value, allowed=allowed(types))
    if inputs.value_cache is not None and inputs.value_cache.element_type is not key:
        found = inputs.value_cache.element_type.value
        call.report("V98", "value_cache", found, allowed=f"{key.value} as key_cache")
    for name, scale in (("k_scale", inputs.k_scale), ("v_scale", inputs.v_scale)):
        _check_type(call, name, scale, ElementType.FLOAT32)
    if scores is not None and scores not in ACTIVATION_TYPES:
        call.report("V98", "output_qk", scores.value, allowed=allowed(ACTIVATION_TYPES))


def check_index_types(call: Call) -> None:
    """V98 for lengths, tables, positions and metadata: int32."""
    inputs = call.inputs
    for name, tensor in (
        ("cumulative_sequence_length", inputs.cumulative_sequence_length),
        ("past_seqlens", inputs.past_seqlens),
        ("block_table", inputs.block_table),
        ("slot_mapping", inputs.slot_mapping),
        ("attention_metadata", inputs.attention_metadata),
        ("query_positions", inputs.query_positions),
    ):
        if tensor is not None and tensor.element_type is not ElementType.INT32:
            _check_type(call, name, tensor, ElementType.INT32)


def check_places(call: Call) -> None:
    """V102, V103: one device, innermost axes contiguous, caches contiguous throughout."""
    device = call.inputs.query.device
    for name, tensor in call.inputs.named():
        if tensor is None:
            continue
        expected = "cpu" if name == "attention_metadata" else device
        if tensor.device != expected:
            call.report("V102", name, tensor.device, device=expected)
        if not tensor.contiguous_inner:
            call.report("V103", name, "another stride", "inner")
        elif tensor.row_stride and name in _CACHES:
            call.report("V103", name, f"rows {tensor.row_stride} elements apart", "whole")


def _check_activation(call: Call, name: str, found: ElementType) -> None:
    """Compare with query, or with all of T when query itself is outside it."""
    query = call.inputs.query.element_type
    if query in ACTIVATION_TYPES:
        call.report("V98", name, found.value, allowed=f"{query.value} as query")
    elif found not in ACTIVATION_TYPES:
        call.report("V98", name, found.value, allowed=allowed(ACTIVATION_TYPES))


def _check_type(
    call: Call, name: str, tensor: TensorSignature | None, expected: ElementType
) -> None:
    if tensor is not None and tensor.element_type is not expected:
        call.report("V98", name, tensor.element_type.value, allowed=expected.value)
