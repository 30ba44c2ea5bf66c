"""The checker and pa-models' own reader resolve a configuration to the same model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from config_variants import VARIANTS
from pa_models.testing import architectures, read_config, rotation
from pa_spec import InputUnusable
from pa_spec.checker import check_model, inverse_frequencies

_ARCHITECTURES = architectures()
_FILES = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent / "configs").glob("*.json"))
}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    name: {"architectures": [_ARCHITECTURES[config["model_type"]]], **config}
    for name, config in (_FILES | dict(VARIANTS)).items()
    if config["model_type"] in _ARCHITECTURES
}

LENIENT: Mapping[str, str] = {
    "llama, dtype unknown": "element types are taken from the weights",
    "llama, heads do not divide hidden, head_dim": "head_dim alone sizes the projections",
    "llama, layer_types too short": "llama's layers are all alike; the key is not read",
    "llama, layer_types unknown": "llama's layers are all alike; the key is not read",
    "llama, lengths null": "null is read as absent",
    "llama, llama3 without low_freq_factor": "1 is what every file has",
    "llama, text_config inside": "keys beside it are complete",
    "llama, theta inside null": "null is read as absent",
    "llama, theta null": "null is read as absent",
    "llama, tie null": "null is read as absent",
    "llama, type null": "null is read as absent",
    "llama, type su": "the older name of longrope",
    "llama, yarn without factor": "the lengths' ratio is what a null factor means",
    "llama, yarn, original at the top null": "null is read as absent",
    "qwen2, head_dim null": "null is read as absent",
    "qwen2, layer_types, unused window": "a window that is not used is none",
    "qwen2, use_sliding_window null": "null is read as absent",
    "qwen3, head_dim null": "null is read as absent",
}
"""What pa-models serves although transformers refuses it, and why its meaning is not in doubt."""

FREQUENCY_TOLERANCE = 4e-6
"""Relative; one computes in float32, the other in float64."""


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_what_pa_models_accepts_the_checker_resolves_to_the_same(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")

    meaning = check_model(tmp_path).meaning

    try:
        written = read_config({"intermediate_size": 96, **config})
    except InputUnusable:
        assert name not in LENIENT
        return
    assert (meaning is None) == (name in LENIENT)
    if meaning is None:
        return
    layers = meaning.layers
    assert {layer.num_heads for layer in layers} == {written.num_heads}
    assert {layer.kv_num_heads for layer in layers} == {written.kv_num_heads}
    assert {layer.head_size for layer in layers} == {written.head_size}
    assert tuple(layer.window for layer in layers) == written.windows
    assert {layer.has_qk_norm for layer in layers} == {written.has_qk_norm}
    assert meaning.has_tied_embeddings == written.has_tied_embeddings
    assert meaning.vocab_size == written.vocab_size
    assert meaning.hidden_size == written.hidden_size
    assert meaning.context_tokens == written.context_tokens
    [rope] = meaning.ropes
    switch = rope.original_tokens
    for tokens in (16, switch, switch + 1, rope.trained_tokens * 3):
        expected, multiplier = rotation(written, tokens)
        found, factor = inverse_frequencies(rope, tokens)
        np.testing.assert_allclose(found, expected.double(), rtol=FREQUENCY_TOLERANCE)
        assert factor == pytest.approx(multiplier)


def test_both_readers_meet_on_most_configurations() -> None:
    accepted = [name for name in CONFIGS if is_read(CONFIGS[name])]

    assert len(accepted) > len(CONFIGS) / 2


def is_read(config: Mapping[str, Any]) -> bool:
    """Whether pa-models accepts a configuration."""
    try:
        read_config({"intermediate_size": 96, **config})
    except InputUnusable:
        return False
    return True
