"""Keys that no layer is resolved from and that change what attention does all the same."""

from __future__ import annotations

from pa_spec.checker.huggingface.config.declared_key import declaration_of
from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.identity import Identity

CAUSAL = "is_causal"
BOTH_DIRECTIONS = "use_bidirectional_attention"
CLAMP = "clip_qkv"
ENCODER = "is_encoder_decoder"


def check_outside(identity: Identity) -> None:
    """Refuse attention to later tokens; report what a decoder does around attention."""
    fields, family = identity.fields, identity.family
    # Every class makes its masks by this key, which none of them declares.
    if fields.is_written(CAUSAL) and not fields.raw(CAUSAL):
        allowed = "causal attention (true, or no such key)"
        fields.refuse("config.unsupported", CAUSAL, fields.raw(CAUSAL), allowed=allowed)
    if family.resolver != "two_widths":
        _check_both_directions(fields, family)
    if declaration_of(family).declares(CLAMP) and CLAMP in fields:
        fields.report("config.clamped", CLAMP, fields.raw(CLAMP))
    if identity.outer.raw(ENCODER) is True:
        allowed = "false: the family has no encoder, and generate() asks for one"
        identity.outer.report("config.ignored", ENCODER, True, allowed=allowed)


def _check_both_directions(fields: Fields, family: Family) -> None:
    found = fields.raw(BOTH_DIRECTIONS)
    if not found:
        return
    if declaration_of(family).declares(BOTH_DIRECTIONS):
        allowed = "causal attention (false, or no such key)"
        fields.refuse("config.unsupported", BOTH_DIRECTIONS, found, allowed=allowed)
    else:
        allowed = "false, or no such key: the family does not read it and attends to earlier tokens"
        fields.report("config.ignored", BOTH_DIRECTIONS, found, allowed=allowed)
