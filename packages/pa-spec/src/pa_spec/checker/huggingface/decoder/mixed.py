"""Resolves decoders whose layers differ in kind: some attend, some keep a fixed state, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pa_spec.checker.huggingface.config.attention import has_qk_norm, read_heads, read_scale
from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity
from pa_spec.checker.huggingface.config.window import (
    FULL,
    report_unread_chunks,
    report_unread_window,
)
from pa_spec.checker.huggingface.decoder.dense import Decoder
from pa_spec.checker.huggingface.decoder.mixture import CONV, HYBRID, LINEAR, read_kinds
from pa_spec.checker.huggingface.decoder.state_reader import read_rows
from pa_spec.checker.huggingface.rope.family_rope import read_ropes
from pa_spec.checker.meaning import FixedRow, LayerKind, LayerMeaning, RopeMeaning
from pa_spec.element_type import ElementType

_STATE_KINDS = {
    "short_conv": LayerKind.CONV,
    "delta_net": LayerKind.LINEAR_ATTENTION,
    "mamba2": LayerKind.MAMBA,
    "nemotron": LayerKind.MAMBA,
}


def resolve_mixed(identity: Identity, activation: ElementType) -> Decoder | None:
    """Resolve a mixed decoder; None after the findings that say why not."""
    fields, family = identity.fields, identity.family
    kinds = read_kinds(fields, family)
    heads = read_heads(fields, family)
    fields.count("max_position_embeddings")
    is_used = any(kind in (LINEAR, CONV, HYBRID) for kind in kinds)
    rows = read_rows(fields, family, activation, is_used=is_used)
    scale = read_scale(fields, family, max(heads.head_size, 1), 0)
    if fields.is_broken:
        return None
    ropes = _ropes(fields, family, heads.head_size) if {FULL, HYBRID} & set(kinds) else ()
    attention = LayerMeaning(
        LayerKind.ATTENTION,
        num_heads=heads.num_heads,
        kv_num_heads=heads.kv_num_heads,
        head_size=heads.head_size,
        v_head_size=heads.head_size,
        rope=0 if ropes else None,
        scale=scale,
        has_qk_norm=has_qk_norm(fields, family),
    )
    made = _layer_kinds(attention, rows, _STATE_KINDS[str(family.rules["state"])])
    _report_unread(fields, family)
    report_unread_window(fields)
    report_unread_chunks(fields)
    return Decoder(tuple(made[kind] for kind in kinds), ropes, heads.hidden_size)


def _layer_kinds(
    attention: LayerMeaning, rows: tuple[FixedRow, ...], state: LayerKind
) -> Mapping[str, LayerMeaning]:
    with_state = LayerMeaning(state, fixed=rows)
    return {
        FULL: attention,
        LINEAR: with_state,
        CONV: with_state,
        HYBRID: replace(attention, kind=LayerKind.ATTENTION_AND_MAMBA, fixed=rows),
        "moe": LayerMeaning(LayerKind.NONE),
        "mlp": LayerMeaning(LayerKind.NONE),
    }


def _ropes(fields: Fields, family: Family, head_size: int) -> tuple[RopeMeaning, ...]:
    """Return the rotary embedding of the layers that attend, none where nothing is rotated."""
    key = str(family.rules.get("rope_if", ""))
    if family.rope == "none" or (key and fields.text(key) != "rope"):
        return ()
    rope = read_ropes(fields, family, head_size).get(FULL)
    return () if rope is None else (rope,)


def _report_unread(fields: Fields, family: Family) -> None:
    """Report keys of the family's older code that would say something else."""
    for key, read in family.rules.get("unread", {}).items():
        value = fields.raw(read) if fields.is_written(read) else fields.default(read)
        if fields.raw(key) not in (None, value):
            allowed = f"{read}, which is {value}"
            fields.report("config.ignored", key, fields.raw(key), allowed=allowed)
