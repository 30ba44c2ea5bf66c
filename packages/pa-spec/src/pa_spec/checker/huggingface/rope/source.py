"""Where a configuration's rotary embedding is written, and which of several spellings counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.window import FULL, SLIDING

_NULLABLE = (
    "factor",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
)
"""Keys that may be null in the object, which then means: not written."""


def shared_source(fields: Fields, family: Family) -> Fields:
    """Return the object that describes the one rotary embedding of all layers.

    rope_scaling, the older spelling, wins over rope_parameters where it is not empty: transformers
    replaces the one by the other.
    """
    scaling, parameters = fields.object("rope_scaling"), fields.object("rope_parameters")
    if parameters is None:
        parameters = family.default_rope
    elif scaling and parameters and _differ(fields, scaling, parameters):
        value = f"rope type {_kind_name(scaling)}"
        said = f"rope type {_kind_name(parameters)}"
        fields.report(
            "config.disagreement", "rope_parameters", said, winner="rope_scaling", value=value
        )
    key, chosen = ("rope_scaling", scaling) if scaling else ("rope_parameters", parameters)
    per_layer = sorted(name for name, value in chosen.items() if isinstance(value, dict))
    if per_layer:
        allowed = "one rotary embedding, as the family has the same one in all layers"
        fields.refuse("config.contradiction", key, ", ".join(per_layer), allowed=allowed)
    return fields.inside(key, chosen, _NULLABLE)


def layer_type_sources(fields: Fields) -> Mapping[str, Fields]:
    """Return the object of each layer type, where a family has one for each.

    rope_scaling amends that of the full_attention layers.
    """
    scaling, parameters = fields.object("rope_scaling"), fields.object("rope_parameters")
    found = {
        layer_type: _layer_type_source(fields, parameters, layer_type)
        for layer_type in (FULL, SLIDING)
    }
    if scaling is not None:
        if parameters is not None and not isinstance(parameters.get(FULL), dict):
            allowed = f"rope_parameters with {FULL}, which it amends"
            fields.refuse("config.contradiction", "rope_scaling", scaling, allowed=allowed)
        amended = _drop_lost_type(fields, scaling, {**_raw(parameters, FULL), **scaling})
        found[FULL] = fields.inside("rope_scaling", amended, _NULLABLE)
    if parameters and not {FULL, SLIDING} & set(parameters):
        allowed = f"one object for {FULL} and one for {SLIDING}; class defaults are used"
        fields.report("config.ignored", "rope_parameters", ", ".join(parameters), allowed=allowed)
    return found


def _layer_type_source(
    fields: Fields, parameters: Mapping[str, Any] | None, layer_type: str
) -> Fields:
    written = (parameters or {}).get(layer_type)
    if written is not None and not isinstance(written, dict):
        inside = fields.inside("rope_parameters", {})
        inside.refuse("config.wrong_type", layer_type, written, case="object")
    return fields.inside(f"rope_parameters.{layer_type}", _raw(parameters, layer_type), _NULLABLE)


def _raw(parameters: Mapping[str, Any] | None, layer_type: str) -> dict[str, Any]:
    written = (parameters or {}).get(layer_type)
    return dict(written) if isinstance(written, dict) else {"rope_type": "default"}


def _kind_name(values: Mapping[str, Any]) -> object:
    return values.get("rope_type", values.get("type", "default"))


def _differ(fields: Fields, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    theta = fields.raw("rope_theta")
    return _canonical(left, theta) != _canonical(right, theta)


def _canonical(values: Mapping[str, Any], theta: Any) -> dict[str, Any]:
    kind = _kind_name(values)
    return {"rope_theta": theta, **values, "rope_type": kind, "type": kind}


def _drop_lost_type(
    fields: Fields, scaling: Mapping[str, Any], amended: dict[str, Any]
) -> dict[str, Any]:
    """Leave out an older type that the class's own rope_type hides, after reporting it."""
    older, newer = scaling.get("type"), amended.get("rope_type")
    if older is None or newer is None or "rope_type" in scaling or older == newer:
        return amended
    allowed = "rope_type: the older key is not read beside the class's own rope_type"
    fields.report("config.ignored", "rope_scaling.type", older, allowed=allowed)
    return {key: value for key, value in amended.items() if key != "type"}
