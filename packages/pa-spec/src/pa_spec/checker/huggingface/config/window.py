"""Which window each layer has: one small function for each rule of the family table.

none          every layer attends to everything
always        sliding_window, where written, holds in every layer; layer_types is not read
flag          the same, when use_sliding_window is true
upper         layers from max_window_layers on, when use_sliding_window is true, or layer_types
upper_always  the same without the flag, which is not read
lower_even    even layers below max_window_layers, else as upper
pattern       all but every pattern-th layer, or layer_types
types         all layers, or layer_types
no_rope       layers without rotary embedding, when use_sliding_window is true, or layer_types

A window of W counts the current token: transformers' mask keeps keys above position - W.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.meaning import NO_WINDOW

SLIDING = "sliding_attention"
FULL = "full_attention"

_Types: TypeAlias = tuple[tuple[str, ...], int | None]
"""Each layer's type, and the window of the sliding ones."""

_OLDER_NAMES = MappingProxyType({"attention": FULL, "mamba": "linear_attention"})


@dataclass(frozen=True, slots=True)
class _Case:
    """What a rule looks at. written: layer_types, () = not written."""

    fields: Fields
    family: Family
    layers: int
    written: tuple[str, ...]


def read_layer_types(fields: Fields, layers: int) -> tuple[str, ...]:
    """Return layer_types in today's names, () when it is not written.

    Refuses a list of another length: transformers checks it in every family.
    """
    written = tuple(_OLDER_NAMES.get(each, each) for each in fields.texts("layer_types"))
    if fields.is_broken or fields.raw("layer_types") is None:
        return ()
    if len(written) != layers:
        allowed = f"num_hidden_layers={layers} entries"
        fields.refuse(
            "config.contradiction", "layer_types", f"{len(written)} entries", allowed=allowed
        )
    return written


def read_windows(
    fields: Fields, family: Family, layers: int
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the type ("sliding_attention" or "full_attention") and the window of each layer.

    Call only where no value was broken so far; what is returned means nothing when one then is.
    """
    written = read_layer_types(fields, layers)
    unknown = ", ".join(sorted({each for each in written if each not in (SLIDING, FULL)}))
    if unknown:
        allowed = f"{SLIDING} or {FULL}"
        fields.refuse("config.unknown_value", "layer_types", unknown, allowed=allowed)
    if fields.is_broken:
        return (), ()
    types, window = _RULES[family.windows](_Case(fields, family, layers, written))
    if SLIDING in (*types, *written) and window is None and not fields.is_broken:
        _refuse_missing_window(fields, is_written=bool(written))
    if written and types != written and not fields.is_broken:
        said = ", ".join(sorted(set(written)))
        allowed = "the same in all layers: layer_types is not read"
        fields.report("config.ignored", "layer_types", said, allowed=allowed)
    return types, tuple(window or NO_WINDOW if each == SLIDING else NO_WINDOW for each in types)


def report_unread_window(fields: Fields) -> None:
    """Report a window in a family whose masks know none."""
    _report_unread(fields, "sliding_window", "null: the family's layers attend to everything")


def report_unread_chunks(fields: Fields) -> None:
    """Report chunks in a family whose masks know none."""
    _report_unread(fields, "attention_chunk_size", "null: the family's masks know no chunks")


def _report_unread(fields: Fields, key: str, allowed: str) -> None:
    if key in fields:
        fields.report("config.ignored", key, fields.raw(key), allowed=allowed)


def _refuse_missing_window(fields: Fields, *, is_written: bool) -> None:
    why = "layer_types has" if is_written else "its pattern has"
    allowed = f"a window, as {why} {SLIDING} layers"
    is_flagged = fields.default("use_sliding_window") is not None
    name = "use_sliding_window" if is_flagged and "sliding_window" in fields else "sliding_window"
    if is_flagged and not fields.flag("use_sliding_window"):
        name = "use_sliding_window"
    found = fields.raw(name) if fields.is_written(name) else "nothing"
    fields.refuse("config.contradiction", name, found, allowed=allowed)


def _none(case: _Case) -> _Types:
    # The layers attend to everything, but transformers' caches go by layer_types.
    if SLIDING in case.written:
        return (FULL,) * case.layers, case.fields.optional_count("sliding_window")
    report_unread_window(case.fields)
    return (FULL,) * case.layers, None


def _always(case: _Case) -> _Types:
    window = case.fields.optional_count("sliding_window")
    return (FULL if window is None else SLIDING,) * case.layers, window


def _flag(case: _Case) -> _Types:
    window = _flagged_window(case.fields)
    return (FULL if window is None else SLIDING,) * case.layers, window


def _upper(case: _Case) -> _Types:
    window = _flagged_window(case.fields)
    first = case.fields.count("max_window_layers", least=0)
    is_windowed = [window is not None and layer >= first for layer in range(case.layers)]
    return case.written or _types(is_windowed), window


def _upper_always(case: _Case) -> _Types:
    window = case.fields.optional_count("sliding_window")
    first = case.fields.count("max_window_layers", least=0)
    is_windowed = [window is not None and layer >= first for layer in range(case.layers)]
    return case.written or _types(is_windowed), window


def _lower_even(case: _Case) -> _Types:
    window = _flagged_window(case.fields)
    end = case.fields.count("max_window_layers", least=0)
    is_used = case.fields.flag("use_sliding_window")
    is_windowed = [is_used and layer % 2 == 0 and layer < end for layer in range(case.layers)]
    return case.written or _types(is_windowed), window


def _pattern(case: _Case) -> _Types:
    fields, period = case.fields, case.family.pattern
    window = fields.optional_count("sliding_window")
    if case.written:
        _compare_pattern(case)
        return case.written, window
    if case.family.pattern_key:
        period = fields.count(case.family.pattern_key, period)
    return _types([(layer + 1) % period != 0 for layer in range(case.layers)]), window


def _type_list(case: _Case) -> _Types:
    types, window = _always(case)
    return case.written or types, window


def _no_rope(case: _Case) -> _Types:
    window = _flagged_window(case.fields)
    rotated = rotated_layers(case.fields, case.layers)
    is_windowed = [window is not None and not each for each in rotated]
    return case.written or _types(is_windowed), window


def rotated_layers(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether no_rope_layers leaves it its rotary embedding (1 = it does)."""
    written = fields.counts("no_rope_layers")
    if fields.raw("no_rope_layers") is None:
        every = fields.count("no_rope_layer_interval")
        return tuple((layer + 1) % every != 0 for layer in range(layers))
    if len(written) < layers:
        allowed = f"num_hidden_layers={layers} entries"
        found = f"{len(written)} entries"
        fields.refuse("config.contradiction", "no_rope_layers", found, allowed=allowed)
        return (True,) * layers
    return tuple(each != 0 for each in written[:layers])


def _flagged_window(fields: Fields) -> int | None:
    return fields.optional_count("sliding_window") if fields.flag("use_sliding_window") else None


def _types(is_windowed: Sequence[bool]) -> tuple[str, ...]:
    return tuple(SLIDING if each else FULL for each in is_windowed)


def _compare_pattern(case: _Case) -> None:
    """Report a pattern that says something else than layer_types, which wins."""
    key, written = case.family.pattern_key, case.written
    pattern = case.fields.raw(key) if key else None
    match pattern:
        case int() if pattern > 0 and not isinstance(pattern, bool):
            said = [(layer + 1) % pattern != 0 for layer in range(len(written))]
        case str() if pattern and set(pattern) <= {"L", "G"}:
            said = [pattern[layer % len(pattern)] == "L" for layer in range(len(written))]
        case _:
            return
    if _types(said) != written:
        value = f"{written.count(SLIDING)} of {len(written)} layers have a window"
        case.fields.report("config.disagreement", key, pattern, winner="layer_types", value=value)


_RULES: Mapping[str, Callable[[_Case], _Types]] = MappingProxyType(
    {
        "none": _none,
        "always": _always,
        "flag": _flag,
        "upper": _upper,
        "upper_always": _upper_always,
        "lower_even": _lower_even,
        "pattern": _pattern,
        "types": _type_list,
        "no_rope": _no_rope,
    }
)
