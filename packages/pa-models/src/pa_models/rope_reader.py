"""Reading the rotary embedding of a config.json, in every spelling in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec import InputUnusable

from pa_models.fields import Fields
from pa_models.rope import RopeConfig, rope_kind


def read_rope(config: Fields, head_size: int, trained_tokens: int) -> RopeConfig:
    """Resolve rope_parameters, rope_scaling and the top-level keys into one meaning.

    rope_scaling wins over rope_parameters (newer), as transformers replaces the one by the other;
    a value inside wins over one at the top, except original_max_position_embeddings, where the
    top wins.

    Raises InputUnusable for an unknown kind, a factor that no kind can use, and factor lists of
    another length than rotary_dim / 2.
    """
    nested = _nested(config)
    kind = rope_kind(nested.text("rope_type", nested.text("type", "default")))
    rotary_dim = _rotary_dim(config, nested, head_size)
    original = _original_tokens(config, nested, kind, trained_tokens)
    rope = RopeConfig(
        kind=kind,
        theta=nested.number("rope_theta", config.number("rope_theta", 10000.0), above=1.0),
        rotary_dim=rotary_dim,
        trained_tokens=trained_tokens,
        original_tokens=original,
        factor=_factor(nested, kind, trained_tokens / original),
        attention_factor=nested.optional_number("attention_factor"),
        mscale=nested.number("mscale", 0.0, above=-1.0),
        mscale_all_dim=nested.number("mscale_all_dim", 0.0, above=-1.0),
        beta_fast=nested.number("beta_fast", 32.0) or 32.0,
        beta_slow=nested.number("beta_slow", 1.0) or 1.0,
        truncate=nested.flag("truncate", default=True),
        low_freq_factor=nested.number("low_freq_factor", 1.0),
        high_freq_factor=nested.number("high_freq_factor", 4.0),
        factors_short=nested.numbers("short_factor"),
        factors_long=nested.numbers("long_factor"),
    )
    check_rope(rope, nested.name)
    return rope


def check_rope(rope: RopeConfig, name: str) -> None:
    """Refuse values for which the kind's formula has no meaning (InputUnusable)."""
    if rope.kind == "llama3" and rope.high_freq_factor <= rope.low_freq_factor:
        problem = f"high_freq_factor {rope.high_freq_factor} <= low_freq_factor"
        raise InputUnusable(name, problem, f"more than {rope.low_freq_factor}")
    if rope.kind != "longrope":
        return
    pairs = rope.rotary_dim // 2
    for key, factors in (("short_factor", rope.factors_short), ("long_factor", rope.factors_long)):
        if len(factors) != pairs:
            allowed = f"rotary_dim / 2 = {pairs} numbers"
            raise InputUnusable(f"{name}.{key}", f"{len(factors)} numbers", allowed)
        if min(factors) <= 0.0:
            raise InputUnusable(f"{name}.{key}", f"{min(factors)}", "numbers above 0")


def _nested(config: Fields) -> Fields:
    for key in ("rope_scaling", "rope_parameters"):
        value: Any = config.raw(key)
        if not value:
            continue
        if not isinstance(value, Mapping):
            raise InputUnusable(f"{config.name}.{key}", f"{value!r}", "an object or null")
        if any(isinstance(each, Mapping) for each in value.values()):
            problem = f"one rotary embedding for each layer type ({', '.join(value)})"
            raise InputUnusable(f"{config.name}.{key}", problem, "one for all layers")
        return Fields(f"{config.name}.{key}", value)
    return Fields(f"{config.name}.rope_parameters", {})


def _rotary_dim(config: Fields, nested: Fields, head_size: int) -> int:
    share = nested.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    rotary_dim = int(head_size * share)
    if not 0 < rotary_dim <= head_size or rotary_dim % 2:
        problem = f"{share} of head size {head_size} rotates {rotary_dim} channels"
        allowed = f"an even number of channels from 2 to {head_size}"
        raise InputUnusable(f"{config.name}.partial_rotary_factor", problem, allowed)
    return rotary_dim


def _original_tokens(config: Fields, nested: Fields, kind: str, trained_tokens: int) -> int:
    key = "original_max_position_embeddings"
    inside = nested.count(key, trained_tokens)
    return config.count(key, inside) if kind in ("llama3", "yarn", "longrope") else inside


def _factor(nested: Fields, kind: str, implied: float) -> float:
    if kind == "default":
        return 1.0
    if kind in ("yarn", "longrope"):
        return nested.number("factor", implied)
    factor = nested.optional_number("factor")
    if factor is None:
        raise InputUnusable(f"{nested.name}.factor", "missing", f"a number, as {kind} needs one")
    return nested.number("factor", factor)
