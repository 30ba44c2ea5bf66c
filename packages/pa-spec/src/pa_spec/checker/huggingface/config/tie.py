"""Whether the embedding is the output projection too, and which of several flags says so."""

from __future__ import annotations

from pa_spec.checker.huggingface.config.identity import Identity

TIE = "tie_word_embeddings"


def read_tie(identity: Identity) -> bool:
    """Whether the embedding is the output projection too.

    Of a nested file the outer flag decides, except where the decoder inside is a whole model of
    its own; a class that ties nothing is not moved by any.
    """
    if identity.nested is not None:
        return _nested(identity)
    fields = identity.fields
    is_tied = fields.flag(TIE)
    if is_tied and identity.family.rules.get("never_tied") is True:
        allowed = "false: the class ties nothing, so the weights hold both"
        fields.report("config.ignored", TIE, fields.raw(TIE), allowed=allowed)
        return False
    return is_tied


def _nested(identity: Identity) -> bool:
    nested, outer, inner = identity.nested, identity.outer, identity.fields
    assert nested is not None
    if nested.is_tied_inside:
        is_tied = inner.flag(TIE)
        if outer.is_written(TIE) and outer.flag(TIE) != is_tied and not outer.is_broken:
            winner = f"{nested.text_key}.{TIE}"
            outer.report("config.disagreement", TIE, outer.raw(TIE), winner=winner, value=is_tied)
        return is_tied
    older = nested.tie_key
    key = older if older and outer.is_written(older) else TIE
    is_tied = outer.flag(key, default=nested.has_tied_embeddings)
    winner = key if outer.is_written(key) else "the outer class default"
    if nested.is_tied_by_either and not is_tied and inner.flag(TIE):
        is_tied, winner = True, f"{nested.text_key}.{TIE}"
    for fields in (outer, inner):
        is_other = fields is not outer or key != TIE
        if is_other and fields.is_written(TIE) and fields.flag(TIE) != is_tied:
            found = fields.raw(TIE)
            fields.report("config.disagreement", TIE, found, winner=winner, value=is_tied)
    return is_tied
