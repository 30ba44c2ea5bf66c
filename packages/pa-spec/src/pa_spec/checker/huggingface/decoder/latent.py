"""Latent attention: all heads read one row of a latent and a rotated key (DeepSeek-V2 and later).

The cache holds that row (contract section 8.6): kv_lora_rank + qk_rope_head_dim channels, of which
the first kv_lora_rank are the value too. The scale stays that of a head before absorption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.window import (
    FULL,
    read_layer_types,
    report_unread_chunks,
    report_unread_window,
)
from pa_spec.checker.huggingface.decoder.dense import MAX_LAYERS, Decoder
from pa_spec.checker.huggingface.rope.family_rope import read_ropes
from pa_spec.checker.huggingface.rope.parameter import NOT_NEGATIVE
from pa_spec.checker.meaning import LayerKind, LayerMeaning, RopeMeaning

_INDEXED = ("indexed_attention", "deepseek_sparse_attention")


@dataclass(frozen=True, slots=True)
class _Widths:
    """Channels of the latent, of a key that is rotated, and of the rest of a head's key."""

    latent: int
    rotated: int
    unrotated: int


def resolve_latent(identity: Identity) -> Decoder | None:
    """Resolve a decoder with latent attention; None after the findings that say why not."""
    fields, family = identity.fields, identity.family
    if "read_as" in family.rules:
        name, known = family.model_type, family.rules["read_as"]
        fields.report("hybrid.read_as", "model_type", name, family=known)
    layers = fields.count("num_hidden_layers", most=MAX_LAYERS)
    hidden_size = fields.count("hidden_size")
    heads = _heads(fields, family, hidden_size)
    widths = _widths(fields, family)
    _check_layer_types(fields, family, layers)
    report_unread_window(fields)
    report_unread_chunks(fields)
    if fields.is_broken:
        return None
    rope = read_ropes(fields, family, widths.rotated).get(FULL)
    if rope is None:
        return None
    if fields.default("rope_interleave") is not None:
        rope = replace(rope, interleaved=fields.flag("rope_interleave"))
    layer = LayerMeaning(
        LayerKind.LATENT_ATTENTION,
        num_heads=heads,
        kv_num_heads=1,
        head_size=widths.latent + widths.rotated,
        v_head_size=widths.latent,
        rope=0,
        scale=latent_scale(widths.unrotated + widths.rotated, rope, _share(fields, rope)),
    )
    index_keys = _index_keys(fields, family, rope)
    if index_keys:
        layer = replace(layer, index_key_size=fields.count("index_head_dim"))
    return Decoder((layer,) * layers, (rope,), hidden_size, index_keys=index_keys)


def latent_scale(head_size: int, rope: RopeMeaning, share: float) -> float:
    """Return the factor of the logits: that of a head's own width, times yarn's temperature twice.

    share: mscale_all_dim, 0 = no temperature. The stretched embedding leaves the temperature out
    of cos and sin, where it would reach the rotated channels only (Peng et al. 2023, section 3.4).
    """
    plain = 1.0 / math.sqrt(head_size)
    if rope.kind == "default" or rope.factor <= 1.0:
        return plain
    temperature = 0.1 * share * math.log(rope.factor) + 1.0
    return plain * temperature * temperature


def _check_layer_types(fields: Fields, family: Family, layers: int) -> None:
    """Refuse types of layers that the family's cache is not made for."""
    allowed = _INDEXED if _has_index(family) else (FULL,)
    written = read_layer_types(fields, layers)
    unknown = sorted(set(written) - set(allowed))
    if unknown and len(written) == layers:
        found = ", ".join(unknown)
        fields.refuse("config.unknown_value", "layer_types", found, allowed=allowed[0])


def _has_index(family: Family) -> bool:
    return family.rules.get("has_index_keys") is True


def _heads(fields: Fields, family: Family, hidden_size: int) -> int:
    """Return the heads; keys are made for each of them, so a grouping has nothing to repeat."""
    heads = fields.count("num_attention_heads")
    kv_heads = fields.optional_count("num_key_value_heads") or heads
    if fields.is_broken:
        return heads
    if heads // kv_heads != 1:
        allowed = f"num_attention_heads={heads}, as every head has keys of its own"
        fields.refuse("config.contradiction", "num_key_value_heads", kv_heads, allowed=allowed)
    elif family.heads_divide_hidden and hidden_size % heads:
        allowed = f"a multiple of num_attention_heads={heads}"
        fields.refuse("config.contradiction", "hidden_size", hidden_size, allowed=allowed)
    return heads


def _widths(fields: Fields, family: Family) -> _Widths:
    """Read the widths; a head_dim that the rotary embedding takes for its own must be the same."""
    rotated = fields.count("qk_rope_head_dim")
    widths = _Widths(
        fields.count("kv_lora_rank"), rotated, fields.count("qk_nope_head_dim", least=0)
    )
    fields.count("v_head_dim")
    fields.optional_count("q_lora_rank")
    written = fields.optional_count("head_dim")
    if fields.is_broken:
        return widths
    if widths.latent % 8:
        fields.refuse("V106", "kv_lora_rank", widths.latent)
    if rotated % 8:
        fields.refuse("V10", "qk_rope_head_dim", rotated)
    counts = family.rules.get("written_head_size_counts") is True
    if counts and written not in (None, rotated):
        allowed = f"qk_rope_head_dim={rotated}, as the rotary embedding takes head_dim's width"
        fields.refuse("config.contradiction", "head_dim", written, allowed=allowed)
    return widths


def _share(fields: Fields, rope: RopeMeaning) -> float:
    """Return mscale_all_dim; other kinds than yarn carry it too and it counts there as well."""
    key = "rope_scaling" if fields.raw("rope_scaling") else "rope_parameters"
    around = fields.inside(key, fields.object(key) or {}, ("mscale_all_dim",))
    share = around.optional_number("mscale_all_dim", above=NOT_NEGATIVE) or 0.0
    if share and rope.kind != "default" and "factor" not in around and not around.is_broken:
        # The class takes the written factor here, not the ratio of lengths that stands in for it.
        around.refuse("config.missing", "factor", "null")
    return share


def _index_keys(fields: Fields, family: Family, rope: RopeMeaning) -> str:
    """Return what an indexer keeps beside the latent row, "" where it never leaves a token out."""
    if not _has_index(family):
        return ""
    chosen, width = fields.count("index_topk"), fields.count("index_head_dim")
    if width < rope.rotary_dim and not fields.is_broken:
        allowed = f"at least qk_rope_head_dim={rope.rotary_dim}, which is rotated in it"
        fields.refuse("config.contradiction", "index_head_dim", width, allowed=allowed)
    if chosen >= rope.trained_tokens:
        return ""
    return f"index keys of width {width}, by which {chosen} tokens are chosen"
