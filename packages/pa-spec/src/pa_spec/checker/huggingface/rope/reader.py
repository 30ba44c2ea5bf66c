"""Resolves one rotary embedding: kind, base, rotated width, lengths, factors."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.rope.frequency import ROPE_KINDS
from pa_spec.checker.huggingface.rope.parameter import read_factor, read_parameters
from pa_spec.checker.meaning import RopeMeaning

MAX_ROTARY_DIM = 2**16
"""Rotated channels that are resolved; published heads have at most 1024."""

ORIGINAL = "original_max_position_embeddings"
_STRETCHED = ("llama3", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class RopeFrame:
    """What a rotary embedding takes from the rest of the configuration.

    head_size: width of which it rotates all or a part. trained_tokens: max_position_embeddings.
    theta: its base where its own object writes none. rotates_part: partial_rotary_factor is read;
    otherwise whole heads are rotated. original_at_top: original_max_position_embeddings beside the
    object overrules the one inside.
    """

    head_size: int
    trained_tokens: int
    theta: float
    rotates_part: bool = False
    is_interleaved: bool = False
    original_at_top: bool = True


def read_rope(fields: Fields, source: Fields, frame: RopeFrame, kind: str = "") -> RopeMeaning:
    """Resolve one rotary embedding from its own object and the keys around it.

    kind: what it is, "" = what the object says. Mistakes break both fields; what is returned then
    means nothing.
    """
    kind = kind or read_kind(source)
    original = _original_tokens(fields, source, frame, kind)
    share = _share(fields, source)
    writer = source if source.is_written("partial_rotary_factor") else fields
    rotary_dim = _rotary_dim(writer, frame, kind, share)
    theta = source.number("rope_theta", frame.theta, above=1.0)
    factor = read_factor(source, kind, frame.trained_tokens / original)
    parameters = read_parameters(source, kind, rotary_dim)
    if kind == "proportional":
        parameters["rotated_pairs"] = float(int(share * frame.head_size // 2))
    return RopeMeaning(
        kind=kind,
        theta=theta,
        rotary_dim=rotary_dim,
        trained_tokens=frame.trained_tokens,
        original_tokens=original,
        factor=factor,
        interleaved=frame.is_interleaved,
        parameters=tuple(parameters.items()),
    )


def read_kind(source: Fields, known: tuple[str, ...] = ROPE_KINDS) -> str:
    """Return the kind that rope_type, else type, names; "default" where neither is written."""
    is_newer = source.is_written("rope_type")
    key = "rope_type" if is_newer else "type"
    kind = source.raw(key) if source.is_written(key) else "default"
    if not isinstance(kind, str) or kind not in known:
        source.refuse("config.unknown_value", key, kind, allowed=f"one of {', '.join(known)}")
        return "default"
    older = source.raw("type")
    if is_newer and older not in (None, kind):
        source.report("config.disagreement", "type", older, winner="rope_type", value=kind)
    return kind


def _original_tokens(fields: Fields, source: Fields, frame: RopeFrame, kind: str) -> int:
    least = 2 if kind == "longrope" else 1
    is_at_top = fields.is_written(ORIGINAL) or fields.default(ORIGINAL) is not None
    if kind in _STRETCHED and frame.original_at_top and is_at_top:
        return fields.count(ORIGINAL, least=least)
    return source.count(ORIGINAL, frame.trained_tokens, least=least)


def _share(fields: Fields, source: Fields) -> float:
    key = "partial_rotary_factor"
    if source.is_written(key):
        return source.number(key)
    if fields.is_written(key) and key not in fields and fields.default(key) is None:
        return 1.0
    return fields.number(key, 1.0 if fields.default(key) is None else None)


def _rotary_dim(writer: Fields, frame: RopeFrame, kind: str, share: float) -> int:
    """Return the rotated channels of a head, as transformers rounds them: down."""
    width = frame.head_size
    key = "partial_rotary_factor"
    if width > MAX_ROTARY_DIM:
        # Frequencies are tabulated: a width that nobody has must not cost its memory.
        allowed = f"at most {MAX_ROTARY_DIM} rotated channels"
        writer.refuse("config.out_of_range", "head size", width, allowed=allowed)
        return 2
    if kind == "proportional":
        if frame.rotates_part and int(width * share) != width:
            allowed = "1, as a proportional embedding is as wide as the head"
            writer.refuse("config.contradiction", key, share, allowed=allowed)
        return width
    rotated = int(width * share)
    if not frame.rotates_part and rotated != width:
        if kind == "default":
            writer.report("config.ignored", key, share, allowed="1: whole heads are rotated")
            return width
        allowed = f"1, as the family rotates whole heads, of {width} channels"
        writer.refuse("config.contradiction", key, share, allowed=allowed)
        return width
    if rotated % 2 or not 2 <= rotated <= width or (kind == "dynamic" and rotated < 4):
        allowed = f"an even number of channels of {width}"
        writer.refuse("config.out_of_range", key, f"{share:g}: {rotated} channels", allowed=allowed)
    return max(rotated, 2)
