"""Heads of a decoder whose attention is wider in some layers than in others (Gemma 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.window import FULL, SLIDING

PER_LAYER = "per_layer_config"
_READ = ("head_dim", "num_key_value_heads")


class Width(NamedTuple):
    """Width of the layers of one type."""

    head_size: int
    kv_num_heads: int


def read_widths(fields: Fields, types: Sequence[str]) -> Mapping[str, Width]:
    """Return the width of each layer type that occurs, none where a number is broken.

    Released files give the wide layers' numbers by name; what transformers saves gives them layer
    by layer, and then the names are not read.
    """
    narrow = Width(fields.count("head_dim"), fields.count("num_key_value_heads"))
    if fields.is_written(PER_LAYER):
        widths = _per_layer(fields, types, narrow)
    else:
        wide = fields.count("global_head_dim")
        heads = fields.optional_count("num_global_key_value_heads")
        is_used = fields.flag("attention_k_eq_v")
        widths = {SLIDING: narrow, FULL: Width(wide, heads if is_used and heads else narrow[1])}
    if fields.is_broken:
        return {}
    found = {layer_type: widths[layer_type] for layer_type in dict.fromkeys(types)}
    return found if _fit(fields, found) else {}


def _per_layer(fields: Fields, types: Sequence[str], narrow: Width) -> Mapping[str, Width]:
    written = fields.object(PER_LAYER) or {}
    by_layer = [narrow] * len(types)
    for key, values in written.items():
        # int() reads other digits and signs too; nobody means them.
        index = int(key) if key.isdecimal() and len(key) < 10 else len(types)
        if index >= len(types) or not isinstance(values, dict):
            inside = fields.inside(PER_LAYER, written)
            allowed = f"an object for each of the layers 0 to {len(types) - 1}"
            inside.refuse("config.out_of_range", key[:20], values, allowed=allowed)
            return {}.fromkeys(types, narrow)
        by_layer[index] = _overridden(fields, key, values, narrow)
    found: dict[str, Width] = {}
    for index, (layer_type, width) in enumerate(zip(types, by_layer, strict=True)):
        if found.setdefault(layer_type, width) != width and not fields.is_broken:
            allowed = f"the same in all {layer_type} layers, as they share a rotary embedding"
            name = f"{PER_LAYER}.{index}"
            fields.refuse("config.contradiction", name, f"head_dim {width[0]}", allowed=allowed)
    return found


def _overridden(fields: Fields, key: str, values: Mapping[str, Any], narrow: Width) -> Width:
    inside = fields.inside(f"{PER_LAYER}.{key}", values)
    others = sorted(name for name in values if name not in _READ)
    if others:
        allowed = f"{' and '.join(_READ)} only"
        inside.refuse("config.unsupported", others[0][:40], values[others[0]], allowed=allowed)
    head_size, kv_num_heads = _READ
    return Width(inside.count(head_size, narrow[0]), inside.count(kv_num_heads, narrow[1]))


def _fit(fields: Fields, widths: Mapping[str, Width]) -> bool:
    """Refuse what V2 and V10 refuse."""
    num_heads = fields.count("num_attention_heads")
    fits = True
    for layer_type, width in widths.items():
        is_wide = layer_type == FULL and not fields.is_written(PER_LAYER)
        if num_heads % width.kv_num_heads:
            name = "num_key_value_heads"
            if is_wide and "num_global_key_value_heads" in fields:
                name = "num_global_key_value_heads"
            fields.refuse("V2", name, width.kv_num_heads, num_heads=num_heads)
        elif width.head_size % 8:
            fields.refuse("V10", "global_head_dim" if is_wide else "head_dim", width.head_size)
        else:
            continue
        fits = False
    return fits
