"""Which kind each layer of a mixed decoder is: one small function for each spelling.

interval  every full_attention_interval-th layer attends, or layer_types
indices   the layers of full_attn_idxs attend, all where there is none, or layer_types
listed    layer_types, without which the class cannot be constructed
types     layer_types, else no layer attends
pattern   a letter for each layer, or layer_types; num_hidden_layers is not read
hybrid    every layer attends and keeps a state too
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.window import FULL, read_layer_types
from pa_spec.checker.huggingface.decoder.dense import MAX_LAYERS

LINEAR = "linear_attention"
CONV = "conv"
HYBRID = "hybrid"
WITHOUT_MIXER = ("moe", "mlp")

_LETTERS = MappingProxyType({"M": LINEAR, "*": FULL, "E": "moe", "-": "mlp"})
_OLDER_NAMES = MappingProxyType({"attention": FULL, "mamba": LINEAR})


def read_kinds(fields: Fields, family: Family) -> tuple[str, ...]:
    """Return each layer's kind in transformers' names; fields are broken where there is none."""
    return _RULES[str(family.rules["kinds"])](fields)


def _interval(fields: Fields) -> tuple[str, ...]:
    layers = _count(fields)
    written = _written(fields, layers, (LINEAR, FULL))
    key = "full_attention_interval"
    is_compared = bool(written) and key in fields
    if fields.is_broken or (written and not is_compared):
        return written
    every = fields.count(key)
    implied = tuple(LINEAR if (layer + 1) % every else FULL for layer in range(layers))
    return _chosen(fields, key, written, implied)


def _indices(fields: Fields) -> tuple[str, ...]:
    layers, key = _count(fields), "full_attn_idxs"
    written = _written(fields, layers, (CONV, FULL))
    if fields.is_broken or (written and key not in fields):
        return written
    attending = set(fields.counts(key)) if key in fields else set(range(layers))
    surplus = sorted(index for index in attending if index >= layers)
    if surplus and not written:
        allowed = f"layers 0 to {layers - 1}"
        fields.report("config.ignored", key, surplus[0], allowed=allowed)
    implied = tuple(FULL if layer in attending else CONV for layer in range(layers))
    return _chosen(fields, key, written, implied)


def _listed(fields: Fields) -> tuple[str, ...]:
    written = _written(fields, _count(fields), (CONV, FULL))
    if not written and not fields.is_broken:
        fields.refuse("config.missing", "layer_types", "nothing")
    return written


def _types(fields: Fields) -> tuple[str, ...]:
    layers, older = _count(fields), "layers_block_type"
    if fields.is_written(older) and older not in fields:
        # The class has put its default in by the time it takes this null.
        fields.refuse("config.wrong_type", older, None, case="texts")
    written = _written(fields, layers, (LINEAR, FULL))
    return written or (LINEAR,) * layers


def _pattern(fields: Fields) -> tuple[str, ...]:
    key = "hybrid_override_pattern"
    allowed_types = (LINEAR, FULL, *WITHOUT_MIXER)
    listed = fields.texts("layer_types")
    pattern = fields.text(key)
    if max(len(listed), len(pattern)) > MAX_LAYERS:
        allowed = f"at most {MAX_LAYERS} layers"
        length = max(len(listed), len(pattern))
        fields.refuse("config.out_of_range", key, f"{length} layers", allowed=allowed)
    if fields.is_broken:
        return ()
    if fields.raw("layer_types") is not None:
        kinds = tuple(_OLDER_NAMES.get(each, each) for each in listed)
        _refuse_unknown(fields, "layer_types", kinds, allowed_types)
        if not kinds:
            fields.refuse("config.missing", "layer_types", "no layer")
        _compare_count(fields, len(kinds), "layer_types")
        implied = tuple(_LETTERS.get(letter, "") for letter in pattern) or kinds
        return _chosen(fields, key, kinds, implied)
    if not fields.is_written(key):
        kinds = (LINEAR, "moe", FULL, "mlp")
        fields.report("config.class_default", key, "nothing", value="M E * -")
        return kinds
    odd = sorted(set(pattern) - set(_LETTERS))
    if odd:
        allowed = f"letters of {' '.join(_LETTERS)}"
        fields.refuse("config.unknown_value", key, " ".join(odd), allowed=allowed)
        return ()
    if not pattern:
        fields.refuse("config.missing", key, "no layer")
    _compare_count(fields, len(pattern), key)
    return tuple(_LETTERS[letter] for letter in pattern)


def _hybrid(fields: Fields) -> tuple[str, ...]:
    layers = _count(fields)
    for key in ("layer_types", "layers_block_type"):
        if fields.is_written(key):
            allowed = "no such key: all layers are alike, and the class cannot be told otherwise"
            fields.refuse("config.contradiction", key, fields.raw(key), allowed=allowed)
    if fields.raw("attn_layer_indices") is not None:
        allowed = "null: every layer attends"
        key = "attn_layer_indices"
        fields.report("config.ignored", key, fields.raw(key), allowed=allowed)
    return (HYBRID,) * layers


def _count(fields: Fields) -> int:
    return fields.count("num_hidden_layers", most=MAX_LAYERS)


def _written(fields: Fields, layers: int, allowed: Sequence[str]) -> tuple[str, ...]:
    if fields.is_broken:
        return ()
    written = read_layer_types(fields, layers)
    _refuse_unknown(fields, "layer_types", written, allowed)
    return written


def _refuse_unknown(fields: Fields, key: str, kinds: Sequence[str], allowed: Sequence[str]) -> None:
    unknown = sorted(set(kinds) - set(allowed))
    if unknown and not fields.is_broken:
        listed = f"one of {', '.join(allowed)}"
        fields.refuse("config.unknown_value", key, ", ".join(unknown), allowed=listed)


def _chosen(
    fields: Fields, key: str, written: tuple[str, ...], implied: tuple[str, ...]
) -> tuple[str, ...]:
    """Return what layer_types says where it is written, and report what says otherwise."""
    if written and written != implied and not fields.is_broken:
        value = f"{written.count(FULL)} of {len(written)} layers attend"
        fields.report(
            "config.disagreement", key, fields.raw(key), winner="layer_types", value=value
        )
    return written or implied


def _compare_count(fields: Fields, layers: int, winner: str) -> None:
    count = fields.raw("num_hidden_layers")
    if count not in (None, layers) and not fields.is_broken:
        fields.report(
            "config.disagreement", "num_hidden_layers", count, winner=winner, value=layers
        )


_RULES: Mapping[str, Callable[[Fields], tuple[str, ...]]] = MappingProxyType(
    {
        "interval": _interval,
        "indices": _indices,
        "listed": _listed,
        "types": _types,
        "pattern": _pattern,
        "hybrid": _hybrid,
    }
)
