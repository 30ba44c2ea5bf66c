"""Rotary embedding: the frequencies that follow from what a configuration says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pa_spec.arrays import Float32Array
from pa_spec.checker.meaning import RopeMeaning


def inverse_frequencies(rope: RopeMeaning, tokens: int) -> tuple[Float32Array, float]:
    """Compute the angle that one position adds to each pair of channels, and the attention factor.

    tokens: length of the sequence, which dynamic and longrope ask for.

    Returns [rotary_dim/2] float32, rounded where transformers rounds, and the multiplier of cos
    and sin: positions are far, so a last bit here is many in an angle.
    """
    with np.errstate(all="ignore"):
        return _FREQUENCIES[rope.kind](rope, tokens), _attention_factor(rope, tokens)


def _number(rope: RopeMeaning, key: str) -> float | None:
    value = dict(rope.parameters).get(key)
    return float(value) if isinstance(value, int | float) else None


def _numbers(rope: RopeMeaning, key: str) -> Float32Array:
    value = dict(rope.parameters).get(key)
    return np.asarray(value if isinstance(value, tuple) else (), np.float32)


def _attention_factor(rope: RopeMeaning, tokens: int) -> float:
    """Return the temperature of yarn and longrope, 1 elsewhere."""
    mscale = _number(rope, "long_mscale" if tokens > rope.original_tokens else "short_mscale")
    written = _number(rope, "attention_factor") if mscale is None else mscale
    if rope.kind not in ("yarn", "longrope"):
        return 1.0
    if written is not None:
        return written
    if rope.kind == "longrope":
        grown = math.log(max(rope.factor, 1.0)) / math.log(max(rope.original_tokens, 2))
        return math.sqrt(1.0 + grown)
    mscale, of_all = _number(rope, "mscale"), _number(rope, "mscale_all_dim")
    if mscale and of_all:
        return _temperature(rope.factor, mscale) / _temperature(rope.factor, of_all)
    return _temperature(rope.factor, 1.0)


def _temperature(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def _powers(rope: RopeMeaning, theta: float) -> Float32Array:
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float32) / np.float32(rope.rotary_dim)
    # numpy's own power in float32 misses more last bits than a rounded one in float64.
    return np.power(theta, exponents.astype(np.float64)).astype(np.float32)


def _default(rope: RopeMeaning, _: int) -> Float32Array:
    return 1.0 / _powers(rope, rope.theta)


def _linear(rope: RopeMeaning, _: int) -> Float32Array:
    return _default(rope, 0) / rope.factor


def _dynamic(rope: RopeMeaning, tokens: int) -> Float32Array:
    """Stretch the base so that the slowest channel covers the sequence (NTK-aware, 2023)."""
    length = max(tokens, rope.trained_tokens)
    growth = rope.factor * length / rope.trained_tokens - (rope.factor - 1.0)
    exponent = rope.rotary_dim / (rope.rotary_dim - 2)
    return 1.0 / _powers(rope, float(rope.theta * np.power(growth, exponent)))


def _llama3(rope: RopeMeaning, _: int) -> Float32Array:
    """Keep fast channels, divide slow ones, blend in between."""
    frequencies = _default(rope, 0)
    low = _number(rope, "low_freq_factor") or 1.0
    high = _number(rope, "high_freq_factor") or 4.0
    rotations = rope.original_tokens / (2.0 * math.pi / frequencies)
    # With both factors equal nothing lies in between, whatever the blend would be.
    blend = (rotations - low) / ((high - low) or 1.0)
    blended = (1.0 - blend) * frequencies / rope.factor + blend * frequencies
    is_slow, is_fast = rotations < low, rotations > high
    return np.where(is_slow, frequencies / rope.factor, np.where(is_fast, frequencies, blended))


def _yarn(rope: RopeMeaning, _: int) -> Float32Array:
    """Blend by the number of rotations within the original context (Peng et al. 2023, 3.2)."""
    low = _rotation_channel(rope, _number(rope, "beta_fast") or 32.0)
    high = _rotation_channel(rope, _number(rope, "beta_slow") or 1.0)
    if _number(rope, "truncate") != 0.0:
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, rope.rotary_dim - 1.0)
    channel = np.arange(rope.rotary_dim // 2, dtype=np.float32)
    # The paper's ramp has a pole where both ends meet; any narrow ramp serves there.
    stretched: Float32Array = np.clip((channel - low) / ((high - low) or 0.001), 0.0, 1.0)
    powers = _powers(rope, rope.theta)
    return stretched * (1.0 / (rope.factor * powers)) + (1.0 - stretched) * (1.0 / powers)


def _rotation_channel(rope: RopeMeaning, rotations: float) -> float:
    turns = rope.original_tokens / (rotations * 2.0 * math.pi)
    return rope.rotary_dim * math.log(turns) / (2.0 * math.log(rope.theta))


def _longrope(rope: RopeMeaning, tokens: int) -> Float32Array:
    key = "long_factor" if tokens > rope.original_tokens else "short_factor"
    return 1.0 / (_numbers(rope, key) * _powers(rope, rope.theta))


def _proportional(rope: RopeMeaning, _: int) -> Float32Array:
    """Rotate the first share of the pairs, at frequencies of the whole width; the rest stands."""
    rotated = int(_number(rope, "rotated_pairs") or 0)
    frequencies = _default(rope, 0) / rope.factor
    frequencies[rotated:] = 0.0
    return frequencies


_FREQUENCIES: Mapping[str, Callable[[RopeMeaning, int], Float32Array]] = MappingProxyType(
    {
        "default": _default,
        "linear": _linear,
        "dynamic": _dynamic,
        "llama3": _llama3,
        "yarn": _yarn,
        "longrope": _longrope,
        "proportional": _proportional,
    }
)

ROPE_KINDS = tuple(_FREQUENCIES)
"""Kinds that a configuration may name."""
