"""The parameters of each kind of rotary embedding: one small reader for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from pa_spec.checker.huggingface.config.field import Fields

NOT_NEGATIVE = -1e-9
"""Lower end of numbers of which 0 means: not given."""

RopeParameters: TypeAlias = dict[str, float | bool | tuple[float, ...] | None]


def read_parameters(source: Fields, kind: str, rotary_dim: int) -> RopeParameters:
    """Return what the kind's formula takes beside base, width, lengths and factor."""
    reader = _READERS.get(kind)
    return reader(source, rotary_dim) if reader is not None else {}


def read_factor(source: Fields, kind: str, implied: float) -> float:
    """Return the stretching factor; yarn and longrope take the ratio of lengths where it is null.

    A key that is missing is refused where transformers refuses it.
    """
    if kind == "default":
        return 1.0
    if kind == "yarn" and not source.is_written("factor"):
        source.refuse("config.missing", "factor", "nothing")
        return 1.0
    default = {"yarn": implied, "longrope": implied, "proportional": 1.0}.get(kind)
    factor = source.optional_number("factor", default)
    if factor is None:
        factor = default
    if factor is None:
        if not source.is_broken:
            found = "null" if source.is_written("factor") else "nothing"
            source.refuse("config.missing", "factor", found)
        return 1.0
    if factor < 1.0 and "factor" in source:
        source.report("config.doubtful", "factor", factor, allowed="1 or more, as it stretches")
    return factor


def _yarn(source: Fields, _: int) -> RopeParameters:
    fast = source.optional_number("beta_fast", above=NOT_NEGATIVE) or 32.0
    slow = source.optional_number("beta_slow", above=NOT_NEGATIVE) or 1.0
    if fast < slow:
        source.report("config.doubtful", "beta_fast", fast, allowed=f"at least beta_slow={slow:g}")
    return {
        "beta_fast": fast,
        "beta_slow": slow,
        "truncate": source.flag("truncate", default=True),
        "attention_factor": source.optional_number("attention_factor"),
        "mscale": source.optional_number("mscale", above=NOT_NEGATIVE),
        "mscale_all_dim": source.optional_number("mscale_all_dim", above=NOT_NEGATIVE),
    }


def _llama3(source: Fields, _: int) -> RopeParameters:
    low, high = source.number("low_freq_factor"), source.number("high_freq_factor")
    if high < low and not source.is_broken:
        allowed = f"more than low_freq_factor={low:g}"
        source.report("config.doubtful", "high_freq_factor", high, allowed=allowed)
    return {"low_freq_factor": low, "high_freq_factor": high}


def _longrope(source: Fields, rotary_dim: int) -> RopeParameters:
    found: RopeParameters = {"attention_factor": source.optional_number("attention_factor")}
    for key in ("short_factor", "long_factor"):
        if not source.is_written(key):
            source.refuse("config.missing", key, "nothing")
            continue
        factors = source.numbers(key)
        if source.raw(key) == [] or (factors and len(factors) != rotary_dim // 2):
            allowed = f"{rotary_dim // 2} numbers, one for each pair of rotated channels"
            source.refuse("config.contradiction", key, f"{len(factors)} numbers", allowed=allowed)
        elif factors and min(factors) <= 0.0:
            source.refuse("config.out_of_range", key, min(factors), allowed="numbers above 0")
        found[key] = factors
    return found


_READERS: Mapping[str, Callable[[Fields, int], RopeParameters]] = MappingProxyType(
    {"yarn": _yarn, "llama3": _llama3, "longrope": _longrope}
)
