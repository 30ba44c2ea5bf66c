"""Rotary position embedding: what a checkpoint asks for, and the frequencies that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from pa_spec import InputUnusable
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """One model's rotary embedding, whatever spelling its checkpoint used.

    rotary_dim: rotated channels of a head, the rest passes through. trained_tokens: positions of
    the configuration (max_position_embeddings). original_tokens: positions before stretching.
    attention_factor: multiplier of cos and sin, None = the kind's own rule. factors_short,
    factors_long: divisors of the frequencies, [rotary_dim/2], for longrope; factors_short alone
    is also how GGUF files carry the llama3 rule, as kind "divided".
    """

    kind: str = "default"
    theta: float = 10000.0
    rotary_dim: int = 64
    trained_tokens: int = 2048
    original_tokens: int = 2048
    factor: float = 1.0
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    factors_short: tuple[float, ...] = ()
    factors_long: tuple[float, ...] = ()

    @property
    def depends_on_length(self) -> bool:
        """Whether the frequencies change with the length of the sequence."""
        return self.kind in ("dynamic", "longrope")

    @property
    def switch_tokens(self) -> int:
        """Sequences of at most so many tokens use the unstretched frequencies."""
        return self.original_tokens if self.kind == "longrope" else self.trained_tokens

    @property
    def context_tokens(self) -> int:
        """Positions the model supports; a stretching factor counts once."""
        match self.kind:
            case "yarn":
                return max(self.trained_tokens, round(self.original_tokens * self.factor))
            case "linear" | "dynamic":
                return round(self.original_tokens * self.factor)
            case _:
                return self.trained_tokens


def inverse_frequencies(rope: RopeConfig, total_tokens: int = 0) -> Tensor:
    """Compute the angle that one position adds to each channel pair.

    total_tokens: length of the sequence, which dynamic and longrope ask for.

    Returns [rotary_dim/2] float32.
    """
    return _FREQUENCIES[rope.kind](rope, total_tokens)


def attention_factor(rope: RopeConfig) -> float:
    """Return the multiplier of cos and sin (yarn's and longrope's temperature)."""
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.kind == "yarn":
        if rope.mscale and rope.mscale_all_dim:
            return _yarn_temperature(rope.factor, rope.mscale) / _yarn_temperature(
                rope.factor, rope.mscale_all_dim
            )
        return _yarn_temperature(rope.factor, 1.0)
    if rope.kind == "longrope" and rope.factor > 1.0:
        return math.sqrt(1.0 + math.log(rope.factor) / math.log(rope.original_tokens))
    return 1.0


def rotary_tables(rope: RopeConfig, positions: int, total_tokens: int = 0) -> tuple[Tensor, Tensor]:
    """Tabulate cos and sin of every position, each [positions, rotary_dim/2] float32."""
    steps = torch.arange(positions, dtype=torch.float32)
    angles = steps[:, None] * inverse_frequencies(rope, total_tokens)
    factor = attention_factor(rope)
    return angles.cos().mul_(factor), angles.sin().mul_(factor)


def _powers(rope: RopeConfig, theta: float) -> Tensor:
    exponents = torch.arange(0, rope.rotary_dim, 2, dtype=torch.float32) / rope.rotary_dim
    return torch.pow(theta, exponents)


def _default(rope: RopeConfig, _: int) -> Tensor:
    return 1.0 / _powers(rope, rope.theta)


def _linear(rope: RopeConfig, _: int) -> Tensor:
    return _default(rope, 0) / rope.factor


def _dynamic(rope: RopeConfig, total_tokens: int) -> Tensor:
    """Stretch the base so that the slowest channel covers the sequence (NTK-aware, 2023)."""
    length = max(total_tokens, rope.trained_tokens)
    growth = rope.factor * length / rope.trained_tokens - (rope.factor - 1.0)
    exponent = rope.rotary_dim / (rope.rotary_dim - 2) if rope.rotary_dim > 2 else 0.0
    return 1.0 / _powers(rope, rope.theta * growth**exponent)


def _llama3(rope: RopeConfig, _: int) -> Tensor:
    """Keep fast channels, divide slow ones, blend in between."""
    frequencies = _default(rope, 0)
    rotations = rope.original_tokens * frequencies / (2.0 * math.pi)
    span = rope.high_freq_factor - rope.low_freq_factor
    blend = ((rotations - rope.low_freq_factor) / span).clamp(0.0, 1.0)
    return frequencies * ((1.0 - blend) / rope.factor + blend)


def _yarn(rope: RopeConfig, _: int) -> Tensor:
    """Blend by the number of rotations within the original context (Peng et al. 2023, 3.2)."""
    low = _rotation_channel(rope, rope.beta_fast)
    high = _rotation_channel(rope, rope.beta_slow)
    if rope.truncate:
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, rope.rotary_dim - 1.0)
    channel = torch.arange(rope.rotary_dim // 2, dtype=torch.float32)
    # The paper's ramp has a pole where both ends meet; any narrow ramp serves there.
    stretched = ((channel - low) / ((high - low) or 0.001)).clamp(0.0, 1.0)
    powers = _powers(rope, rope.theta)
    return stretched / (rope.factor * powers) + (1.0 - stretched) / powers


def _rotation_channel(rope: RopeConfig, rotations: float) -> float:
    turns = rope.original_tokens / (rotations * 2.0 * math.pi)
    return rope.rotary_dim * math.log(turns) / (2.0 * math.log(rope.theta))


def _yarn_temperature(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def _longrope(rope: RopeConfig, total_tokens: int) -> Tensor:
    is_long = total_tokens > rope.switch_tokens
    divisors = rope.factors_long if is_long else rope.factors_short
    return 1.0 / (torch.tensor(divisors, dtype=torch.float32) * _powers(rope, rope.theta))


def _divided(rope: RopeConfig, _: int) -> Tensor:
    return _default(rope, 0) / torch.tensor(rope.factors_short, dtype=torch.float32)


_FREQUENCIES: Mapping[str, Callable[[RopeConfig, int], Tensor]] = MappingProxyType(
    {
        "default": _default,
        "linear": _linear,
        "dynamic": _dynamic,
        "llama3": _llama3,
        "yarn": _yarn,
        "longrope": _longrope,
        "divided": _divided,
    }
)

ROPE_KINDS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
"""Kinds that a configuration may name."""

_SYNONYMS = MappingProxyType({"su": "longrope", "none": "default"})


def rope_kind(name: str) -> str:
    """Return the kind behind a name, InputUnusable for one that nobody knows here."""
    kind = _SYNONYMS.get(name, name)
    if kind not in ROPE_KINDS:
        allowed = ", ".join((*ROPE_KINDS, "su"))
        raise InputUnusable("rope type", f"{name!r} is not supported", allowed)
    return kind
