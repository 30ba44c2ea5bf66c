"""Rules about quantized caches: types, scales and the names of cache types."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pa_spec.operator import TensorSignature
from pa_spec.validation.attribute import CACHE_TYPES
from pa_spec.validation.call import ACTIVATION_TYPES, QUANTIZED_TYPES, Call, presence, shape_text

_ACTIVATIONS = frozenset(ACTIVATION_TYPES)


@dataclass(frozen=True, slots=True)
class _Side:
    """What describes one of the two caches; prefix is "k" or "v"."""

    prefix: str
    cache: TensorSignature
    scale: TensorSignature | None
    quant_type: str
    cache_type: str

    @property
    def cache_name(self) -> str:
        return "key_cache" if self.prefix == "k" else "value_cache"


def check_quantization(call: Call) -> None:
    """V43 to V49 for the key cache and, in SEPARATE, for the value cache."""
    inputs, attributes = call.inputs, call.attributes
    quant_type, cache_type = attributes.k_quant_type, attributes.k_cache_dtype
    _check_side(call, _Side("k", inputs.key_cache, inputs.k_scale, quant_type, cache_type))
    if call.separate and inputs.value_cache is not None:
        quant_type, cache_type = attributes.v_quant_type, attributes.v_cache_dtype
        _check_side(call, _Side("v", inputs.value_cache, inputs.v_scale, quant_type, cache_type))


def _check_side(call: Call, side: _Side) -> None:
    if side.quant_type == "NONE":
        if side.scale is not None or side.cache.element_type is not call.inputs.query.element_type:
            _check_plain(call, side)
    elif side.quant_type in ("PER_TENSOR", "PER_CHANNEL"):
        _check_quantized(call, side)
    if side.cache_type:
        _check_cache_type(call, side)


def _check_plain(call: Call, side: _Side) -> None:
    """V43, V44, V45: a cache without quantization holds query's element type."""
    attribute = f"{side.prefix}_quant_type"
    if side.scale is not None:
        scale = f"{side.prefix}_scale"
        call.report("V43", scale, presence(side.scale), attribute=attribute)
    found, query = side.cache.element_type, call.inputs.query.element_type
    values = {"element_type": query.value, "attribute": attribute}
    if found in QUANTIZED_TYPES:
        call.report("V44", side.cache_name, found.value, **values)
    elif side.prefix == "k" and found is not query and {found, query} <= _ACTIVATIONS:
        # A value cache that differs from the key cache is V98.
        call.report("V45", side.cache_name, found.value, "plain", **values)


def _check_quantized(call: Call, side: _Side) -> None:
    """V45, V46: a quantized cache has a quantized type and a scale."""
    values = {"attribute": f"{side.prefix}_quant_type", "quant_type": side.quant_type}
    found = side.cache.element_type
    if found in ACTIVATION_TYPES:
        call.report("V45", side.cache_name, found.value, "quantized", **values)
    if side.scale is None:
        call.report("V46", f"{side.prefix}_scale", presence(side.scale), **values)
    else:
        _check_scale(call, f"{side.prefix}_scale", side.scale.shape, side.quant_type)


def _check_scale(call: Call, name: str, shape: tuple[int, ...], quant_type: str) -> None:
    """V47, V48: one scale for the cache, or one for each channel of each KV head."""
    kv_heads, head_size = call.attributes.kv_num_heads, call.head_size
    if quant_type == "PER_TENSOR":
        if prod(shape) != 1:
            call.report("V47", name, shape_text(shape))
    elif head_size is not None and shape not in ((kv_heads, 1, head_size), (kv_heads, head_size)):
        call.report("V48", name, shape_text(shape), kv_num_heads=kv_heads, D=head_size)


def _check_cache_type(call: Call, side: _Side) -> None:
    """V49: a named cache type is the tensor's own; names outside the vocabulary are V8 or V50."""
    found = side.cache.element_type
    if side.cache_type in CACHE_TYPES and side.cache_type != found.value:
        name, values = f"{side.prefix}_cache_dtype", {"element_type": found.value}
        call.report("V49", name, side.cache_type, cache=side.cache_name, **values)
