"""Resolves Llama 4: attention within chunks, and layers without a rotary embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pa_spec.checker.huggingface.config.attention import read_heads
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.manifest import layer_names
from pa_spec.checker.huggingface.config.window import FULL, read_layer_types, report_unread_window
from pa_spec.checker.huggingface.decoder.dense import MAX_LAYERS, Decoder
from pa_spec.checker.huggingface.rope.family_rope import read_ropes
from pa_spec.checker.meaning import LayerKind, LayerMeaning

CHUNKED = "chunked_attention"


def resolve_chunked(identity: Identity) -> Decoder | None:
    """Resolve a decoder with chunks; None after the findings that say why not."""
    fields, family = identity.fields, identity.family
    layers = fields.count("num_hidden_layers", most=MAX_LAYERS)
    heads = read_heads(fields, family)
    context = fields.count("max_position_embeddings")
    chunk = fields.optional_count("attention_chunk_size")
    is_tuned = fields.flag("attn_temperature_tuning")
    is_normalized = fields.flag("use_qk_norm")
    fields.count("floor_scale")
    fields.number("attn_scale", above=-1e30)
    if fields.is_broken:
        return None
    rotated = _rotated(fields, layers)
    types = _layer_types(fields, rotated, layers, chunk)
    rope = read_ropes(fields, family, heads.head_size).get(FULL)
    if rope is None:
        return None
    layer = LayerMeaning(
        LayerKind.ATTENTION,
        num_heads=heads.num_heads,
        kv_num_heads=heads.kv_num_heads,
        head_size=heads.head_size,
        v_head_size=heads.head_size,
        scale=float(heads.head_size) ** -0.5,
    )
    made = tuple(
        replace(
            layer,
            chunk_tokens=chunk or 0 if each == CHUNKED else 0,
            rope=0 if is_rotated else None,
            has_qk_norm=is_rotated and is_normalized,
        )
        for each, is_rotated in zip(types, rotated, strict=False)
    )
    _report_chunks(fields, made, context)
    report_unread_window(fields)
    if is_tuned and not all(rotated):
        key = "attn_temperature_tuning"
        names = layer_names([index for index, each in enumerate(rotated) if not each])
        fields.report("hybrid.query_scale", key, f"a scale that grows with the position in {names}")
    ropes = (rope,) if any(rotated) else ()
    return Decoder(made, ropes, heads.hidden_size)


def _rotated(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether it is rotated (no_rope_layers: 1 = it is; [] = not written)."""
    every = fields.count("no_rope_layer_interval")
    written = fields.counts("no_rope_layers")
    if not written:
        return tuple((layer + 1) % every != 0 for layer in range(layers))
    # Longer lists pass only where layer_types does not follow from them.
    is_longer = len(written) > layers and fields.raw("layer_types") is None
    if len(written) < layers or is_longer:
        allowed = f"num_hidden_layers={layers} entries"
        found = f"{len(written)} entries"
        fields.refuse("config.contradiction", "no_rope_layers", found, allowed=allowed)
    return tuple(each != 0 for each in written[:layers])


def _layer_types(
    fields: Fields, rotated: Sequence[bool], layers: int, chunk: int | None
) -> tuple[str, ...]:
    written = read_layer_types(fields, layers)
    unknown = sorted(set(written) - {CHUNKED, FULL})
    if unknown and not fields.is_broken:
        allowed = f"{CHUNKED} or {FULL}"
        fields.refuse("config.unknown_value", "layer_types", ", ".join(unknown), allowed=allowed)
    if CHUNKED in written and chunk is None and not fields.is_broken:
        allowed = f"a size, as layer_types has {CHUNKED} layers"
        fields.refuse("config.contradiction", "attention_chunk_size", None, allowed=allowed)
    has_chunks = chunk is not None
    return written or tuple(CHUNKED if each and has_chunks else FULL for each in rotated)


def _report_chunks(fields: Fields, layers: Sequence[LayerMeaning], context: int) -> None:
    """Report chunks that a sequence can leave; shorter ones never meet the mask."""
    found = [index for index, layer in enumerate(layers) if 0 < layer.chunk_tokens < context]
    if found:
        size = layers[found[0]].chunk_tokens
        actual = f"chunks of {size} tokens in {layer_names(found)}"
        fields.report("hybrid.mask", "attention_chunk_size", actual)
