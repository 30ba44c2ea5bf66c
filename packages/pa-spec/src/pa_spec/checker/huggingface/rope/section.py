"""Sections of a rotary embedding: the pairs of channels that each position axis turns (mrope)."""

from __future__ import annotations

from dataclasses import replace

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.meaning import RopeMeaning

_AXES = 3


def with_sections(fields: Fields, family: Family, rope: RopeMeaning) -> RopeMeaning:
    """Add the pairs of time, height and width; tokens of text have one position on all three.

    Where the class cuts the pairs into sections (rules: are_sections_cut) they have to fit.
    """
    around = fields.object("rope_scaling") or fields.object("rope_parameters") or {}
    inside, key = fields.inside("rope_parameters", around), "mrope_section"
    is_written = inside.is_written(key)
    sections = inside.counts(key) if is_written else tuple(family.rules["sections"])
    pairs = rope.rotary_dim // 2
    is_cut = family.rules.get("are_sections_cut") is True
    if inside.is_broken or not (is_written or is_cut):
        return replace(rope, sections=sections)
    if len(sections) < _AXES and not is_cut:
        allowed = "three numbers: of time, height and width"
        inside.refuse("config.contradiction", key, f"{len(sections)} numbers", allowed=allowed)
    elif sum(sections) != pairs:
        allowed = f"{pairs} pairs of channels together"
        found = sum(sections) if is_written else f"nothing, which is {sum(sections)}"
        if is_cut:
            inside.refuse("config.contradiction", key, found, allowed=allowed)
        else:
            inside.report("config.doubtful", key, found, allowed=allowed)
    return replace(rope, sections=sections)
