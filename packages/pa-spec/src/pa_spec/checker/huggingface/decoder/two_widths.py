"""Resolves Gemma 4: two widths of heads, two rotary embeddings, and layers without a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pa_spec.checker.huggingface.config.attention import read_softcap
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.window import (
    FULL,
    SLIDING,
    read_layer_types,
    report_unread_chunks,
)
from pa_spec.checker.huggingface.decoder.dense import MAX_LAYERS, Decoder
from pa_spec.checker.huggingface.decoder.layer_width import Width, read_widths
from pa_spec.checker.huggingface.rope.reader import ORIGINAL, RopeFrame, read_rope
from pa_spec.checker.meaning import NO_WINDOW, LayerKind, LayerMeaning, RopeMeaning

_PERIOD = 6
OLDER_FULL = "attention"
_DEFAULT_ROPES: Mapping[str, Any] = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
}


def resolve_two_widths(identity: Identity) -> Decoder | None:
    """Resolve a decoder of two widths; None after the findings that say why not."""
    fields = identity.fields
    layers = fields.count("num_hidden_layers", most=MAX_LAYERS)
    hidden_size = fields.count("hidden_size")
    fields.count("num_attention_heads")
    fields.count("sliding_window")
    fields.count("max_position_embeddings")
    final_softcap = read_softcap(fields, "final_logit_softcapping")
    _refuse_both_directions(fields)
    if fields.is_broken:
        return None
    types = _layer_types(fields, layers)
    report_unread_chunks(fields)
    widths = read_widths(fields, types)
    objects = _rope_objects(fields, types)
    sources = _shared_caches(fields, types)
    if not widths or set(objects) != set(types):
        return None
    ropes = {each: _read_rope(fields, objects[each], widths[each]) for each in widths}
    used = tuple(dict.fromkeys(ropes[each] for each in types))
    made = tuple(
        _layer(fields, each, widths[each], (used.index(ropes[each]), source))
        for each, source in zip(types, sources, strict=True)
    )
    return Decoder(made, used, hidden_size, final_softcap)


def _layer(
    fields: Fields, layer_type: str, width: Width, indices: tuple[int, int | None]
) -> LayerMeaning:
    rope, source = indices
    return LayerMeaning(
        LayerKind.ATTENTION,
        num_heads=fields.count("num_attention_heads"),
        kv_num_heads=width.kv_num_heads,
        head_size=width.head_size,
        v_head_size=width.head_size,
        window=fields.count("sliding_window") if layer_type == SLIDING else NO_WINDOW,
        rope=rope,
        scale=1.0,
        has_qk_norm=True,
        shares_cache_of=source,
    )


def _refuse_both_directions(fields: Fields) -> None:
    """Refuse attention to later tokens; between those of one image it is no matter of text."""
    key = "use_bidirectional_attention"
    if fields.raw(key) not in (None, "vision"):
        allowed = "causal attention between tokens of text: null or vision"
        fields.refuse("config.unsupported", key, fields.raw(key), allowed=allowed)


def _layer_types(fields: Fields, layers: int) -> tuple[str, ...]:
    """Return the layers' types; whatever is written, the class makes the last a full one."""
    written = read_layer_types(fields, layers)
    unknown = sorted(set(written) - {SLIDING, FULL})
    if OLDER_FULL in fields.texts("layer_types")[:-1]:
        # The class sizes its layers before it takes the older name for today's.
        unknown.append(OLDER_FULL)
    if unknown and not fields.is_broken:
        allowed = f"{SLIDING} or {FULL}"
        fields.refuse("config.unknown_value", "layer_types", ", ".join(unknown), allowed=allowed)
        written = ()
    if written and written[-1] == SLIDING:
        name = f"layer_types[{layers - 1}]"
        allowed = f"{FULL}, which the class puts there"
        fields.report("config.ignored", name, SLIDING, allowed=allowed)
    implied = tuple(SLIDING if (layer + 1) % _PERIOD else FULL for layer in range(layers))
    return (*(written or implied)[:-1], FULL)


def _shared_caches(fields: Fields, types: Sequence[str]) -> tuple[int | None, ...]:
    """Return for each layer whose cache it reads: the last ones read their type's last owner's."""
    shared = fields.count("num_kv_shared_layers", least=0)
    first = len(types) - shared
    owned = types[: max(first, 0)]
    if first < 0 or (shared and set(owned) != set(types)):
        allowed = "layers of every type that are left with a cache of their own"
        key = "num_kv_shared_layers"
        fields.refuse("config.contradiction", key, shared, allowed=allowed)
        return (None,) * len(types)
    last = {layer_type: index for index, layer_type in enumerate(owned)}
    return tuple(None if i < first else last[each] for i, each in enumerate(types))


def _rope_objects(fields: Fields, types: Sequence[str]) -> Mapping[str, Fields]:
    """Return the object of each layer type's rotary embedding, none where one is missing.

    The older key replaces the newer one as it stands, be it by null; neither may be flat.
    """
    key = "rope_scaling" if fields.is_written("rope_scaling") else "rope_parameters"
    is_default = key == "rope_parameters" and key not in fields
    written = _DEFAULT_ROPES if is_default else fields.object(key) or {}
    found = {each: written.get(each) for each in dict.fromkeys(types)}
    objects = {each: values for each, values in found.items() if isinstance(values, dict)}
    missing = [each for each in found if each not in objects]
    if missing and not fields.is_broken:
        fields.refuse("config.missing", key, f"no object for {' and '.join(missing)}")
    return {each: fields.inside(f"{key}.{each}", objects[each]) for each in objects}


def _read_rope(fields: Fields, source: Fields, width: Width) -> RopeMeaning:
    """Resolve the rotary embedding of one layer type."""
    _refuse_missing(source)
    kind = source.raw("rope_type") or source.raw("type")
    frame = RopeFrame(
        width.head_size,
        fields.count("max_position_embeddings"),
        theta=10000.0,
        rotates_part=kind not in (None, "default", "proportional"),
        original_at_top=False,
    )
    return read_rope(fields, source, frame)


def _refuse_missing(source: Fields) -> None:
    """Refuse what transformers requires in each object; nothing around it fills it in."""
    kind = source.raw("rope_type") or source.raw("type")
    is_stretched = kind in ("yarn", "llama3", "longrope")
    for key in ("rope_theta", ORIGINAL) if is_stretched else ("rope_theta",):
        if not source.is_written(key):
            source.refuse("config.missing", key, "nothing")
