"""Heads, their sizes, and how a layer's logits are scaled, capped and normalized."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields

MAX_HEAD_SIZE = 2**16
"""Widths that are resolved; published heads have at most 1024 channels."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Widths of attention, the same in every layer of a dense family."""

    hidden_size: int
    num_heads: int
    kv_num_heads: int
    head_size: int


def read_heads(fields: Fields, family: Family) -> Heads:
    """Return the heads' numbers and sizes; fields are broken where they do not fit (V2, V10)."""
    hidden = fields.count("hidden_size")
    num_heads = fields.count("num_attention_heads")
    kv_num_heads = _kv_num_heads(fields, family, num_heads)
    is_read = family.head_size != "derived"
    written = fields.optional_count("head_dim") if is_read else None
    if family.head_size == "written" and not fields.is_written("head_dim"):
        fields.refuse("config.missing", "head_dim", "nothing")
    head_size = hidden // num_heads if written is None else written
    if not fields.is_broken:
        _check(fields, family, Heads(hidden, num_heads, kv_num_heads, head_size))
    if not is_read and fields.raw("head_dim") not in (None, head_size):
        _report_unread_size(fields, family, head_size)
    return Heads(hidden, num_heads, kv_num_heads, head_size)


def _report_unread_size(fields: Fields, family: Family, head_size: int) -> None:
    found, allowed = fields.raw("head_dim"), f"{head_size}, derived: head_dim is not read"
    if family.rope == "none":
        fields.report("config.ignored", "head_dim", found, allowed=allowed)
        return
    # Attention derives the size and the rotary embedding reads the key.
    allowed = f"{head_size}, as the heads are derived and only the rotation reads the key"
    fields.refuse("config.contradiction", "head_dim", found, allowed=allowed)


def _kv_num_heads(fields: Fields, family: Family, num_heads: int) -> int:
    if "num_key_value_heads" in family.rules.get("required", ()):
        return fields.count("num_key_value_heads")
    one_if = family.rules.get("one_kv_head_if")
    if one_if is not None:
        return 1 if fields.flag(str(one_if)) else num_heads
    if family.reads_kv_heads:
        return fields.optional_count("num_key_value_heads") or num_heads
    written = fields.raw("num_key_value_heads")
    if written not in (None, num_heads):
        allowed = f"{num_heads}, as many as heads: num_key_value_heads is not read"
        fields.report("config.ignored", "num_key_value_heads", written, allowed=allowed)
    return num_heads


def _check(fields: Fields, family: Family, heads: Heads) -> None:
    if heads.num_heads % heads.kv_num_heads:
        name = "num_key_value_heads"
        fields.refuse("V2", name, heads.kv_num_heads, num_heads=heads.num_heads)
    elif heads.hidden_size % heads.num_heads and (
        family.heads_divide_hidden or fields.optional_count("head_dim") is None
    ):
        allowed = f"a multiple of num_attention_heads={heads.num_heads}"
        fields.refuse("config.contradiction", "hidden_size", heads.hidden_size, allowed=allowed)
    elif (
        family.rules.get("fills_hidden") and heads.num_heads * heads.head_size != heads.hidden_size
    ):
        allowed = f"heads that are hidden_size={heads.hidden_size} wide together"
        found = f"{heads.num_heads} heads of {heads.head_size}"
        fields.refuse("config.contradiction", "head_dim", found, allowed=allowed)
    elif heads.head_size > MAX_HEAD_SIZE:
        name = "head_dim" if "head_dim" in fields else "hidden_size"
        allowed = f"heads of at most {MAX_HEAD_SIZE} channels"
        fields.refuse("config.out_of_range", name, fields.raw(name), allowed=allowed)
    elif heads.head_size % 8 or heads.head_size == 0:
        name = "head_dim" if "head_dim" in fields else "hidden_size / num_attention_heads"
        fields.refuse("V10", name, heads.head_size)
    usual = heads.hidden_size // heads.num_heads
    if fields.default("head_dim") is None and heads.head_size != usual and not fields.is_broken:
        values = {"heads": heads.num_heads, "width": usual, "hidden": heads.hidden_size}
        fields.report("config.unusual_width", "head_dim", heads.head_size, **values)


def read_scale(fields: Fields, family: Family, head_size: int, layer: int) -> float:
    """Return the factor of a layer's logits."""
    natural = 1.0 / math.sqrt(max(head_size, 1))
    match family.scale:
        case "query_scalar":
            return 1.0 / math.sqrt(fields.number("query_pre_attn_scalar"))
        case "multiplier":
            return fields.number("attention_multiplier")
        case "gpt2":
            scale = natural if fields.flag("scale_attn_weights") else 1.0
            is_divided = fields.flag("scale_attn_by_inverse_layer_idx")
            return scale / (layer + 1) if is_divided else scale
        case _:
            return natural


def read_softcap(fields: Fields, key: str) -> float:
    """Return a cap of logits, 0 where the family has no such key or it is null."""
    return (fields.optional_number(key) or 0.0) if key else 0.0


def has_qk_norm(fields: Fields, family: Family) -> bool:
    """Whether queries and keys are normalized; most families do so before they rotate them."""
    if family.qk_norm in ("always", "never"):
        return family.qk_norm == "always"
    return fields.flag(family.qk_norm)
