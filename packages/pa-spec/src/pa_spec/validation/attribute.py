"""Rules about attributes alone."""

from __future__ import annotations

from math import isfinite

from pa_spec.element_type import ElementType
from pa_spec.operator import KvCacheLayout, QuantType
from pa_spec.validation.call import Call

_LAYOUTS = tuple(each.value for each in KvCacheLayout)
_QUANT_TYPES = tuple(each.value for each in QuantType)
CACHE_TYPES = (
    "",
    ElementType.FLOAT16.value,
    ElementType.BFLOAT16.value,
    ElementType.INT8.value,
    ElementType.FLOAT8E4M3FN.value,
)
_RESERVED_CACHE_TYPES = ("int4", "float4e2m1")


def check_heads(call: Call) -> None:
    """V1, V2: query heads and KV heads."""
    heads, kv_heads = call.attributes.num_heads, call.attributes.kv_num_heads
    if heads <= 0:
        call.report("V1", "num_heads", heads)
    if kv_heads <= 0 or (heads > 0 and heads % kv_heads):
        call.report("V2", "kv_num_heads", kv_heads, num_heads=heads)


def check_numbers(call: Call) -> None:
    """V4, V99, V100: epsilon, window, softcap and scale."""
    attributes = call.attributes
    epsilon, window = attributes.qk_norm_epsilon, attributes.local_window_size
    if not (isfinite(epsilon) and epsilon > 0):
        call.report("V4", "qk_norm_epsilon", epsilon)
    if window < -1 or window == 0:
        call.report("V99", "local_window_size", window)
    if not (isfinite(attributes.softcap) and attributes.softcap >= 0):
        call.report("V100", "softcap", attributes.softcap, "softcap")
    if not isfinite(attributes.scale):
        call.report("V100", "scale", attributes.scale, "scale")


def check_choices(call: Call) -> None:
    """V5, V101: the cache layout and the flags."""
    attributes = call.attributes
    if not (call.separate or call.latent):
        found = repr(attributes.kv_cache_layout)
        call.report("V5", "kv_cache_layout", found, allowed=", ".join(_LAYOUTS))
    if attributes.do_rotary not in (0, 1):
        call.report("V101", "do_rotary", attributes.do_rotary, allowed="0, 1")
    if attributes.rotary_interleaved not in (0, 1):
        call.report("V101", "rotary_interleaved", attributes.rotary_interleaved, allowed="0, 1")
    if attributes.qk_output not in (0, 1, 2):
        call.report("V101", "qk_output", attributes.qk_output, allowed="0, 1, 2")


def check_widths(call: Call) -> None:
    """V6, V7, V106: the value width and the first rotated channel."""
    width, offset = call.attributes.v_head_size, call.attributes.rotary_offset
    if width < 0:
        call.report("V6", "v_head_size", width)
    elif width % 8:
        call.report("V106", "v_head_size", width)
    if offset < 0 or offset % 8:
        call.report("V7", "rotary_offset", offset)


def check_cache_words(call: Call) -> None:
    """V8, V50: quantization types and cache types by name."""
    attributes = call.attributes
    _check_quant_type(call, "k_quant_type", attributes.k_quant_type)
    _check_quant_type(call, "v_quant_type", attributes.v_quant_type)
    _check_cache_type(call, "k_cache_dtype", attributes.k_cache_dtype)
    _check_cache_type(call, "v_cache_dtype", attributes.v_cache_dtype)


def _check_quant_type(call: Call, name: str, value: str) -> None:
    if value not in _QUANT_TYPES:
        call.report("V8", name, repr(value), allowed=", ".join(_QUANT_TYPES))


def _check_cache_type(call: Call, name: str, value: str) -> None:
    if value not in CACHE_TYPES:
        rule_id = "V50" if value in _RESERVED_CACHE_TYPES else "V8"
        allowed = ", ".join(each or '""' for each in CACHE_TYPES)
        call.report(rule_id, name, repr(value), allowed=allowed)
