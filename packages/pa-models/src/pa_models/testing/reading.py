"""What the readers make of a config.json, for tests that compare it with another reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pa_models.fields import Fields
from pa_models.model_config import FAMILIES, ModelConfig, read_model_config
from pa_models.rope import attention_factor, inverse_frequencies


def architectures() -> Mapping[str, str]:
    """Return the architecture of each model_type that is read."""
    return {family.name: name for name, family in FAMILIES.items()}


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """Resolve a configuration; InputUnusable where it is refused."""
    return read_model_config(Fields("config.json", config))


def rotation(config: ModelConfig, tokens: int) -> tuple[Tensor, float]:
    """Return the rotary frequencies, [rotary_dim/2] float32, and the multiplier of cos and sin.

    tokens: length of the sequence.
    """
    return inverse_frequencies(config.rope, tokens), attention_factor(config.rope)
