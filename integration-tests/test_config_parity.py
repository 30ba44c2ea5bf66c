"""What a config.json resolves to is what transformers' own modelling code uses.

Expected values are measured on constructed transformers objects (config_oracle.py); the real
configurations are in configs/, variants change a small one. A configuration that transformers
refuses, or whose model fails, is refused here as well, or it says beside it why not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from config_oracle import Refused, Seen, observe
from config_variants import ACCEPTED, REFUSED, VARIANTS
from pa_spec import Severity
from pa_spec.checker import ModelMeaning, check_model, inverse_frequencies
from test_config_parity_hybrid import REAL as HYBRIDS

FILES = sorted((Path(__file__).parent / "configs").glob("*.json"))

FREQUENCY_TOLERANCE = 5e-7
"""Relative; a few last bits of float32, as the two raise the base to powers in other ways."""


def read(path: Path) -> dict[str, Any]:
    """Return a configuration of the test data."""
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return config


def resolve(config: Mapping[str, Any], folder: Path) -> tuple[ModelMeaning | None, list[str]]:
    """Return the meaning and the ids of a configuration's findings that weigh more than a note."""
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    report = check_model(folder)
    heavy = [each.id for each in report.findings if each.severity is not Severity.NOTE]
    return report.meaning, [each for each in heavy if each.startswith(("config.", "V"))]


REPORTED: Mapping[str, str] = {
    "arctic-embed-bert": "config.not_a_decoder",
    "bert-base-uncased": "config.not_a_decoder",
    "chatglm2-6b": "config.refused_family",
    "chatglm3-6b": "config.refused_family",
    "edited-gemma-3-1b": "config.ignored",
    "edited-ministral-3-3b": "config.contradiction",
    "edited-phi-4-mini-reasoning": "config.unknown_family",
    "internlm-7b": "config.refused_family",
    "internlm2.5-7b": "config.refused_family",
    "mimo-7b": "config.refused_family",
    "minicpm-2b": "config.refused_family",
    "phi-3-mini-128k": "config.missing",
    "qwen-7b-v1": "config.refused_family",
    "roberta-encoder": "config.not_a_decoder",
    "rwkv5-3b": "config.refused_family",
    "t5-small": "config.not_a_decoder",
}
"""The one finding above a note of each file that has one; the others have none."""

# Nemotron's 49B describes its blocks itself, so it is resolved without modelling code.
DENSE = [path for path in FILES if path.stem not in (*HYBRIDS, "nemotron-super-49b")]


@pytest.mark.parametrize("path", DENSE, ids=lambda path: path.stem)
def test_real_configuration_resolves_to_what_transformers_uses_or_is_refused(
    path: Path, tmp_path: Path
) -> None:
    config = read(path)

    meaning, heavy = resolve(config, tmp_path)

    assert heavy == [REPORTED[path.stem]] if path.stem in REPORTED else not heavy
    seen, _ = seen_or_reason(config)
    assert (meaning is None) == (seen is None)
    if meaning is not None and seen is not None:
        assert_same(meaning, seen)


def seen_or_reason(config: Mapping[str, Any]) -> tuple[Seen | None, str]:
    """Return what transformers makes of a configuration, or its words of refusal."""
    try:
        return observe(config), ""
    except Refused as refusal:
        return None, f"transformers: {refusal}"


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_variant_resolves_to_what_transformers_uses_or_is_refused(
    name: str, tmp_path: Path
) -> None:
    config = VARIANTS[name]

    meaning, heavy = resolve(config, tmp_path)

    seen, reason = seen_or_reason(config)
    if seen is None:
        assert (meaning is not None) == (name in ACCEPTED), reason
        return
    if name in REFUSED:
        assert meaning is None, f"it is accepted now; it was refused because {REFUSED[name]}"
        return
    assert meaning is not None, heavy
    assert_same(meaning, seen)


def test_every_exception_names_a_variant() -> None:
    assert {*ACCEPTED, *REFUSED} <= set(VARIANTS)
    assert not set(ACCEPTED) & set(REFUSED)


def assert_same(meaning: ModelMeaning, seen: Seen) -> None:
    """Compare everything that attention, its positions and its caches depend on."""
    assert len(meaning.layers) == len(seen.layers)
    for index, (layer, expected) in enumerate(zip(meaning.layers, seen.layers, strict=True)):
        found = {
            "num_heads": layer.num_heads,
            "kv_num_heads": layer.kv_num_heads,
            "head_size": layer.head_size,
            "v_head_size": layer.v_head_size,
            "softcap": layer.softcap,
            "visible": layer.window,
            "has_sink": layer.has_sink,
            "has_qk_norm": layer.has_qk_norm,
        }
        assert found == {key: getattr(expected, key) for key in found}, f"layer {index}"
        assert layer.scale == pytest.approx(expected.scale, rel=1e-12)
        assert (layer.rope is not None) == (expected.rotated_channels > 0), f"layer {index}"
    assert meaning.has_tied_embeddings == seen.is_tied
    assert meaning.vocab_size == seen.model.get_input_embeddings().num_embeddings
    assert meaning.hidden_size == seen.model.get_input_embeddings().embedding_dim
    assert meaning.final_softcap == seen.final_softcap
    assert (meaning.element_type.value if meaning.element_type else "") == seen.dtype
    assert_same_ropes(meaning, seen)


def assert_same_ropes(meaning: ModelMeaning, seen: Seen) -> None:
    """Compare angles and attention factor of every embedding in use, at and around its switch."""
    compared = set()
    is_by_type = isinstance(getattr(getattr(seen.text, "rotary_emb", None), "rope_type", ""), dict)
    for layer, expected in zip(meaning.layers, seen.layers, strict=True):
        if layer.rope is None or (layer.rope, expected.layer_type) in compared:
            continue
        compared.add((layer.rope, expected.layer_type))
        rope = meaning.ropes[layer.rope]
        assert rope.interleaved == expected.pairs_neighbours
        switch = rope.original_tokens
        for tokens in {16, switch - 1, switch, switch + 1, rope.trained_tokens * 3}:
            angles, factor = seen.angles(tokens, expected.layer_type if is_by_type else "")
            frequencies, attention_factor = inverse_frequencies(rope, tokens)
            assert frequencies.shape == (rope.rotary_dim // 2,)
            np.testing.assert_allclose(
                frequencies, angles.numpy(), rtol=FREQUENCY_TOLERANCE, err_msg=f"{tokens} tokens"
            )
            assert attention_factor == pytest.approx(factor, rel=1e-6), f"{tokens} tokens"
