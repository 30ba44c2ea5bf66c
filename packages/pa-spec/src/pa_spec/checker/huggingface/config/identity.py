"""Which decoder a configuration describes: its family, and the object that holds its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.config.family import (
    Family,
    Nested,
    families,
    nested_models,
    refusals,
)
from pa_spec.checker.huggingface.config.field import Fields

_STRUCTURE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_DECODER_KEYS = (
    *_STRUCTURE,
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "sliding_window",
    "layer_types",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A decoder's family and where its keys are.

    fields: the decoder's own, under its family's key names. outer: those of the file, the same
    where nothing is nested. nested: how it is, None where nothing is.
    """

    family: Family
    architecture: str
    fields: Fields
    outer: Fields
    nested: Nested | None = None


def identify(config: Mapping[str, Any], findings: Findings, place: Place) -> Identity | None:
    """Find the family of a configuration; None after a finding that says why there is none."""
    outer = Fields(config, findings, place)
    if not outer.text("model_type"):
        if not outer.is_broken:
            outer.refuse("config.missing", "model_type", "nothing")
        return None
    model_type = outer.text("model_type")
    architectures = outer.texts("architectures")
    if outer.is_broken:
        return None
    nested = nested_models().get(model_type)
    is_flat = nested is not None and nested.may_be_flat and outer.raw(nested.text_key) is None
    if nested is not None and not is_flat:
        return _identify_nested(outer, nested, architectures)
    family = _family(outer, model_type if nested is None else nested.text_model_type)
    if family is None:
        return None
    inside = None if is_flat else outer.raw("text_config")
    if inside is not None:
        allowed = f"no text_config in the family {model_type}"
        outer.refuse("config.contradiction", "text_config", inside, allowed=allowed)
        return None
    fields = _family_fields(outer, family, config)
    known = family.architectures if nested is None else nested.architectures
    return Identity(family, _architecture(outer, architectures, known), fields, fields)


def _identify_nested(
    outer: Fields, nested: Nested, architectures: tuple[str, ...]
) -> Identity | None:
    inside = outer.object(nested.text_key)
    if inside is None and outer.raw(nested.text_key) is not None:
        return None
    if inside is None:
        _report_ignored_keys(outer, nested)
        inside = {**nested.defaults, "model_type": nested.text_model_type}
    within = outer.inside(nested.text_key, inside)
    model_type = within.text("model_type", nested.text_model_type)
    if outer.is_broken:
        return None
    if nested.is_fixed and model_type != nested.text_model_type:
        allowed = f"{nested.text_model_type}: the class takes no other decoder"
        within.report("config.ignored", "model_type", model_type, allowed=allowed)
    family = _family(within, nested.text_model_type if nested.is_fixed else model_type)
    if family is None:
        return None
    is_written = outer.raw(nested.text_key) is not None
    if is_written:
        _report_outer_keys(outer, nested, inside)
    fields = _family_fields(within, family, inside, is_written=is_written)
    architecture = _architecture(outer, architectures, nested.architectures)
    return Identity(family, architecture, fields, outer, nested)


def _family(fields: Fields, model_type: str) -> Family | None:
    family = families().get(model_type)
    if family is not None:
        return family
    refusal = refusals().get(model_type)
    if refusal is None:
        count = len(families()) + len(nested_models())
        fields.refuse("config.unknown_family", "model_type", model_type, count=count)
        return None
    found = f"{model_type}: {refusal.reason}"
    fields.refuse(f"config.{refusal.kind}", "model_type", found)
    return None


def _family_fields(
    fields: Fields, family: Family, values: Mapping[str, Any], *, is_written: bool = True
) -> Fields:
    """Return the decoder's fields under the names that other families use."""
    renamed = dict(values)
    for name, alias in family.aliases.items():
        if alias not in values:
            continue
        wins = alias in family.rules.get("alias_wins", ())
        renamed[name] = values[alias] if wins else values.get(name, values[alias])
        winner, loser = (alias, name) if wins else (name, alias)
        said = values.get(loser, renamed[name])
        if said != renamed[name]:
            fields.report("config.disagreement", loser, said, winner=winner, value=renamed[name])
    found = Fields(renamed, fields.findings, fields.place, family.defaults, family.nullable)
    for key in _STRUCTURE if is_written else ():
        if not found.is_written(key) and found.default(key) is not None:
            found.report("config.class_default", key, "nothing", value=found.default(key))
    return found


def _architecture(fields: Fields, written: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Return the class that the file names first, else the family's own."""
    strangers = [each for each in written if each.endswith(("ForCausalLM", "LMHeadModel"))]
    if set(written) & set(known):
        return written[0]
    if strangers:
        value = fields.raw("model_type")
        fields.report(
            "config.disagreement", "architectures", strangers[0], winner="model_type", value=value
        )
    elif written and not any(each.endswith("ForConditionalGeneration") for each in written):
        allowed = f"{known[0]}, which generates text, and as which the model is checked"
        fields.report("config.ignored", "architectures", written[0], allowed=allowed)
    return written[0] if written else known[0]


def _report_outer_keys(outer: Fields, nested: Nested, inside: Mapping[str, Any]) -> None:
    """Report keys of the decoder that stand beside it, where nobody reads them."""
    for key in _DECODER_KEYS:
        if key in outer and outer.raw(key) != inside.get(key):
            allowed = f"{nested.text_key}.{key}, which is read in its place"
            outer.report("config.ignored", key, outer.raw(key), allowed=allowed)


def _report_ignored_keys(outer: Fields, nested: Nested) -> None:
    ignored = [key for key in (*_STRUCTURE, "num_key_value_heads", "head_dim") if key in outer]
    found = f"{', '.join(ignored)} beside it" if ignored else "nothing"
    allowed = "an object with the decoder's keys; class defaults are used instead"
    outer.report("config.ignored", nested.text_key, found, allowed=allowed)
