"""Resolves a decoder with ordinary attention in every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pa_spec.checker.huggingface.config.attention import (
    has_qk_norm,
    read_heads,
    read_scale,
    read_softcap,
)
from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.window import (
    SLIDING,
    read_windows,
    report_unread_chunks,
    rotated_layers,
)
from pa_spec.checker.huggingface.rope.family_rope import read_ropes
from pa_spec.checker.meaning import LayerKind, LayerMeaning, RopeMeaning

MAX_LAYERS = 4096
"""Layers that are resolved; published decoders have fewer than 200."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """What a family's resolver gives: its layers and their rotary embeddings.

    index_keys: what an indexer keeps for each token beside the caches, in words, "" = nothing.
    """

    layers: tuple[LayerMeaning, ...]
    ropes: tuple[RopeMeaning, ...]
    hidden_size: int
    final_softcap: float = 0.0
    index_keys: str = ""


def resolve_dense(identity: Identity) -> Decoder | None:
    """Resolve a dense family; None after the findings that say why not."""
    fields, family = identity.fields, identity.family
    count = fields.count("num_hidden_layers", most=MAX_LAYERS)
    heads = read_heads(fields, family)
    shared = LayerMeaning(
        LayerKind.ATTENTION,
        num_heads=heads.num_heads,
        kv_num_heads=heads.kv_num_heads,
        head_size=heads.head_size,
        v_head_size=heads.head_size,
        scale=read_scale(fields, family, heads.head_size, 0),
        softcap=read_softcap(fields, family.softcap),
        has_sink=family.has_sink,
        has_qk_norm=has_qk_norm(fields, family),
    )
    final_softcap = read_softcap(fields, final_softcap_key(family))
    fields.count("max_position_embeddings")
    found = None if fields.is_broken else _layers(fields, family, shared, count)
    return None if found is None else Decoder(*found, heads.hidden_size, final_softcap)


def _layers(
    fields: Fields, family: Family, shared: LayerMeaning, count: int
) -> tuple[tuple[LayerMeaning, ...], tuple[RopeMeaning, ...]] | None:
    types, windows = read_windows(fields, family, count)
    report_unread_chunks(fields)
    is_rotated = _rotated(fields, family, types)
    used = {each for each, rotated in zip(types, is_rotated, strict=True) if rotated}
    by_type = read_ropes(fields, family, shared.head_size, used)
    if fields.is_broken:
        return None
    ropes = _used_ropes(by_type, types, is_rotated)
    layers = tuple(
        replace(
            shared,
            window=windows[layer],
            rope=ropes.index(by_type[types[layer]]) if is_rotated[layer] else None,
            scale=read_scale(fields, family, shared.head_size, layer),
        )
        for layer in range(count)
    )
    return layers, ropes


def final_softcap_key(family: Family) -> str:
    """Return the key of the cap of the vocabulary's logits, "" where the family has none."""
    key = "final_logit_softcapping"
    return key if key in family.nullable else ""


def _rotated(fields: Fields, family: Family, types: Sequence[str]) -> tuple[bool, ...]:
    """Return for each layer whether its queries and keys are rotated."""
    if family.rope == "none":
        return (False,) * len(types)
    match family.rope_layers:
        case "windowed":
            return tuple(each == SLIDING for each in types)
        case "windowed_if_any":
            has_window = fields.optional_count("sliding_window") is not None
            return tuple(each == SLIDING or not has_window for each in types)
        case "no_rope_layers":
            return rotated_layers(fields, len(types))
        case _:
            return (True,) * len(types)


def _used_ropes(
    by_type: Mapping[str, RopeMeaning], types: Sequence[str], is_rotated: Sequence[bool]
) -> tuple[RopeMeaning, ...]:
    used = [by_type[each] for each, rotated in zip(types, is_rotated, strict=True) if rotated]
    return tuple(dict.fromkeys(used))
