"""Which rotary embeddings a family has, and what some families do otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.window import FULL, SLIDING
from pa_spec.checker.huggingface.rope.frequency import ROPE_KINDS
from pa_spec.checker.huggingface.rope.parameter import read_factor
from pa_spec.checker.huggingface.rope.reader import ORIGINAL, RopeFrame, read_kind, read_rope
from pa_spec.checker.huggingface.rope.section import with_sections
from pa_spec.checker.huggingface.rope.source import layer_type_sources, shared_source
from pa_spec.checker.meaning import RopeMeaning


def read_ropes(
    fields: Fields, family: Family, head_size: int, used: Collection[str] = (FULL, SLIDING)
) -> Mapping[str, RopeMeaning]:
    """Return the rotary embedding of each layer type; in most families it is the same.

    used: layer types that rotate; transformers constructs no embedding for the others.
    Call only where no value was broken so far; what is returned means nothing when one then is.
    """
    if family.rope == "none" or not used:
        return {}
    frame = RopeFrame(
        head_size,
        fields.count("max_position_embeddings"),
        _theta(fields, "rope_theta", family.default_theta),
        rotates_part=family.rotates_part,
        is_interleaved=family.is_interleaved,
    )
    if family.rope == "by_layer_type":
        return _by_layer_type(fields, family, frame, used)
    source = shared_source(fields, family)
    if fields.is_broken:
        return {}
    _compare_theta(fields, source)
    rope = _READERS[family.rope](fields, source, frame)
    _refuse_null_width(fields, family, rope.kind)
    if "sections" in family.rules:
        rope = with_sections(fields, family, rope)
    return {FULL: rope, SLIDING: rope}


def _refuse_null_width(fields: Fields, family: Family, kind: str) -> None:
    """Refuse a head_dim that kinds compute with as it stands, where the class leaves it null."""
    default = "not_null" if family.head_size == "derived" else ""
    rule = family.rules.get("rope_head_size", default)
    is_null = rule == "written" or (rule == "not_null" and fields.is_written("head_dim"))
    if is_null and "head_dim" not in fields and kind in ("dynamic", "yarn", "longrope"):
        found = "null" if fields.is_written("head_dim") else "nothing"
        fields.refuse("config.missing", "head_dim", found)


def _theta(fields: Fields, key: str, default: float) -> float:
    return fields.number(key, default, above=1.0)


def _compare_theta(fields: Fields, source: Fields) -> None:
    outer, inner = fields.raw("rope_theta"), source.raw("rope_theta")
    if outer is not None and inner is not None and outer != inner:
        winner = f"{source.place.inside}.rope_theta"
        fields.report("config.disagreement", "rope_theta", outer, winner=winner, value=inner)


def _by_layer_type(
    fields: Fields, family: Family, frame: RopeFrame, used: Collection[str]
) -> Mapping[str, RopeMeaning]:
    sources = layer_type_sources(fields)
    local_theta = family.local_theta or family.default_theta
    if family.local_theta_key:
        local_theta = _theta(fields, family.local_theta_key, local_theta)
    frame = replace(frame, original_at_top=False)
    found = {}
    for layer_type, theta in ((FULL, frame.theta), (SLIDING, local_theta)):
        if layer_type not in used:
            continue
        rope = read_rope(fields, sources[layer_type], replace(frame, theta=theta))
        # transformers looks for truncate beside the layer types, where nobody writes it.
        values = tuple(item for item in rope.parameters if item[0] != "truncate")
        found[layer_type] = replace(rope, parameters=values)
    return found


def _phi3(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read Phi-3's: it knows only longrope, under three names."""
    kind = read_kind(source, ("default", "longrope", "su", "yarn"))
    if kind == "su" and not source.is_written(ORIGINAL):
        # The class renames su after it has moved the length inside for the newer names only.
        source.refuse("config.missing", ORIGINAL, "nothing")
    return read_rope(fields, source, frame, "default" if kind == "default" else "longrope")


def _phimoe(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read Phi-3.5-MoE's: its temperature is written, and the short factors serve all lengths."""
    kind = read_kind(source, ("default", "longrope"))
    # Its class copies the length inside over the one at the top.
    rope = read_rope(fields, source, replace(frame, original_at_top=False), kind)
    if kind == "default":
        return rope
    values = dict(rope.parameters)
    values |= {key: source.number(key) for key in ("short_mscale", "long_mscale")}
    if values.get("long_factor") != values.get("short_factor") and not source.is_broken:
        allowed = "short_factor, which transformers applies at every length"
        source.report("config.not_applied", "long_factor", "other numbers", allowed=allowed)
    values["long_factor"] = values.get("short_factor")
    return replace(rope, parameters=tuple(values.items()))


def _ministral3(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read Ministral 3's: queries are scaled by position, in steps of the original length."""
    rope = read_rope(fields, source, frame)
    beta = source.number("llama_4_scaling_beta", above=-1e-9)
    if rope.kind in ("default", "linear", "dynamic", "proportional"):
        source.count(ORIGINAL)
    if beta > 0.0 and rope.original_tokens < rope.trained_tokens:
        found = f"a scale that grows every {rope.original_tokens} positions in all layers"
        source.report("hybrid.query_scale", "llama_4_scaling_beta", found)
    return replace(rope, parameters=(*rope.parameters, ("llama_4_scaling_beta", beta)))


def _minimax_m2(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read MiniMax-M2's: rotary_dim, in channels, is the older word for a rotated part."""
    rope = read_rope(fields, source, frame)
    rotated = fields.optional_count("rotary_dim")
    share = "partial_rotary_factor"
    if rotated is None or fields.is_broken:
        return rope
    if source.is_written(share) or share in fields:
        if rotated != rope.rotary_dim:
            value = f"{rope.rotary_dim} channels"
            fields.report("config.disagreement", "rotary_dim", rotated, winner=share, value=value)
        return rope
    if rotated % 2 or rotated > frame.head_size:
        allowed = f"an even number of channels of {frame.head_size}"
        fields.refuse("config.out_of_range", "rotary_dim", rotated, allowed=allowed)
    return replace(rope, rotary_dim=rotated)


def _neox(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read GPT-NeoX's, whose class has names of its own for the base and the rotated part."""
    inside = {"rope_theta": fields.number("rotary_emb_base", 10000.0, above=1.0)}
    inside["partial_rotary_factor"] = fields.number("rotary_pct")
    for key, read in (("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct")):
        if key in fields and not source.is_written(key):
            fields.report(
                "config.ignored", key, fields.raw(key), allowed=f"{read}, or {key} inside"
            )
    scaling = fields.object("rope_scaling")
    key, written = "rope_scaling", scaling
    if not scaling:
        key, written = "rope_parameters", fields.object("rope_parameters")
    return read_rope(fields, fields.inside(key, {**inside, **(written or {})}), frame)


def _channels(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read GPT-J's: rotary_dim is all that its class reads."""
    rotated = fields.count("rotary_dim")
    if not fields.is_broken and (rotated % 2 or rotated > frame.head_size):
        allowed = f"an even number of channels of {frame.head_size}"
        fields.refuse("config.out_of_range", "rotary_dim", rotated, allowed=allowed)
    for key in ("rope_theta", "rope_scaling", "rope_parameters"):
        if key in fields:
            allowed = "null: the class has a base of 10000 and no stretching"
            fields.report("config.ignored", key, fields.raw(key), allowed=allowed)
    plain = fields.inside(source.place.inside, {"rope_theta": 10000.0})
    rope = read_rope(fields, plain, replace(frame, rotates_part=False), "default")
    return replace(rope, rotary_dim=rotated)


def _mrope(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read Qwen2-VL's: mrope is the older name of a default embedding with sections."""
    kind = read_kind(source, (*ROPE_KINDS, "mrope"))
    return read_rope(fields, source, frame, "default" if kind == "mrope" else kind)


def _hunyuan(fields: Fields, source: Fields, frame: RopeFrame) -> RopeMeaning:
    """Read HunYuan's: dynamic with an alpha is a base stretched once, whatever the length."""
    if read_kind(source) != "dynamic" or not source.raw("alpha"):
        return read_rope(fields, source, frame)
    alpha = source.number("alpha")
    read_factor(source, "dynamic", 1.0)
    rope = read_rope(fields, source, frame, "default")
    exponent = rope.rotary_dim / max(rope.rotary_dim - 2, 1)
    return replace(rope, theta=rope.theta * alpha**exponent)


_READERS: Mapping[str, Callable[[Fields, Fields, RopeFrame], RopeMeaning]] = MappingProxyType(
    {"one": read_rope, "phi3": _phi3, "phimoe": _phimoe, "ministral3": _ministral3}
    | {"minimax_m2": _minimax_m2, "hunyuan": _hunyuan, "mrope": _mrope}
    | {"channels": _channels, "neox": _neox}
)
