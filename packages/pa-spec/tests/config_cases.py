"""A small configuration of each family, and what resolving one says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.checker import Finding, Findings, ModelMeaning, Place
from pa_spec.checker.huggingface.config.resolve import resolve_config

SMALL: Mapping[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def small(model_type: str = "llama", /, **changes: Any) -> dict[str, Any]:
    """Return a configuration of a family that resolves without a finding, with changes."""
    return {"model_type": model_type, **SMALL, **changes}


def without(config: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a configuration without some of its keys."""
    return {key: value for key, value in config.items() if key not in keys}


def resolved(config: Mapping[str, Any]) -> tuple[ModelMeaning | None, tuple[Finding, ...]]:
    """Return what a configuration means, and the findings."""
    findings = Findings()
    meaning = resolve_config(config, findings, Place("config.json"))
    return meaning, tuple(findings)


def meaning_of(config: Mapping[str, Any]) -> ModelMeaning:
    """Return what a configuration means, which must have no finding."""
    meaning, findings = resolved(config)
    assert not findings, [str(each) for each in findings]
    assert meaning is not None
    return meaning
