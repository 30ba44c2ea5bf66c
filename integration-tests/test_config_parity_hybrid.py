"""config.json of decoders with several kinds of layers resolves to what transformers constructs.

Method: real files and variants of them are resolved by the checker and, at the same time,
constructed by transformers on the meta device; every number of every layer is compared with the
modules'. Variants that transformers refuses, or whose smallest model fails, are refused here too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hybrid_configs import SMALL
from hybrid_oracle import Oracle, OracleLayer
from hybrid_variants import FAILING, VARIANTS, Variant
from pa_spec import GroupKind, Severity
from pa_spec.checker import (
    LayerKind,
    LayerMeaning,
    ModelMeaning,
    Report,
    check_model,
    inverse_frequencies,
)

CONFIGS = Path(__file__).parent / "configs"
REAL = (
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3.2",
    "falcon-h1-7b",
    "gemma-3-4b-it",
    "gemma-4-26b-a4b",
    "glm-5",
    "granite-4-8b-dense-hybrid",
    "kimi-k2",
    "lfm2-1.2b",
    "lfm2.5-vl-1.6b",
    "llama-4-scout",
    "minimax-m2.5",
    "ministral-3-3b",
    "nemotron-3-nano-30b-a3b",
    "nemotron-h-56b",
    "qwen3-next-80b-a3b",
    "qwen3.5-27b",
    "qwen3.5-35b-a3b",
    "qwen3.5-9b",
)


@pytest.mark.parametrize("name", REAL)
def test_a_real_configuration_means_what_transformers_constructs(name: str, tmp_path: Path) -> None:
    config = json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))

    assert_equal(resolved(config, tmp_path), Oracle(config))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_variant_means_what_transformers_constructs(variant: Variant, tmp_path: Path) -> None:
    assert_equal(resolved(variant.config, tmp_path), Oracle(variant.config))


@pytest.mark.parametrize("variant", FAILING, ids=lambda variant: variant.name)
def test_what_fails_in_transformers_is_refused_for_one_reason(
    variant: Variant, tmp_path: Path
) -> None:
    report = checked(variant.config, tmp_path)

    violations = [each.id for each in report.findings if each.severity is Severity.VIOLATION]
    assert report.meaning is None
    assert violations == [variant.finding]
    with pytest.raises(Exception, match=r".*"):
        run(variant.config)


@pytest.mark.parametrize(
    ("name", "rotates"),
    [
        ("deepseek2", "apply_rotary_emb"),
        ("deepseek3", "apply_rotary_pos_emb_interleave"),
        ("deepseek32", "apply_rotary_pos_emb_interleave"),
        ("glm", "apply_rotary_pos_emb_interleave"),
        ("next", "apply_rotary_pos_emb"),
        ("lfm2", "apply_rotary_pos_emb"),
        ("falcon", "apply_rotary_pos_emb"),
        ("llama4", "apply_rotary_emb"),
        ("minimax", "apply_rotary_pos_emb"),
    ],
)
def test_pairs_of_channels_are_those_that_transformers_rotates(
    name: str, rotates: str, tmp_path: Path
) -> None:
    oracle, meaning = Oracle(SMALL[name]), resolved(SMALL[name], tmp_path)

    rope = meaning.ropes[0]
    assert oracle.partner_of_the_first_channel(rotates, rope.rotary_dim) == (
        1 if rope.interleaved else rope.rotary_dim // 2
    )


@pytest.mark.parametrize("name", ["gemma4", "llama4"])
def test_a_token_sees_what_transformers_masks_let_through(name: str, tmp_path: Path) -> None:
    config = copy.deepcopy(SMALL[name])
    config["sliding_window" if name == "gemma4" else "attention_chunk_size"] = 5
    oracle, meaning = Oracle(config), resolved(config, tmp_path)

    for index, layer in enumerate(meaning.layers):
        expected = oracle.visible(oracle.layer_type(index), tokens=17)
        assert torch.equal(expected, seen_by(layer, 17)), index


def checked(config: Mapping[str, Any], folder: Path) -> Report:
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return check_model(folder)


def resolved(config: Mapping[str, Any], folder: Path) -> ModelMeaning:
    report = checked(config, folder)
    assert report.meaning is not None, [str(each) for each in report.findings]
    return report.meaning


def assert_equal(meaning: ModelMeaning, oracle: Oracle) -> None:
    assert len(meaning.layers) == len(oracle.layers)
    assert meaning.has_tied_embeddings == oracle.is_tied
    assert meaning.vocab_size == oracle.model.get_output_embeddings().weight.shape[0]
    assert meaning.hidden_size == oracle.model.get_input_embeddings().weight.shape[1]
    for index, (layer, expected) in enumerate(zip(meaning.layers, oracle.layers, strict=True)):
        assert as_oracle(layer, expected) == expected, index
        assert layer.scale == pytest.approx(expected.scale, rel=1e-12)
        assert layer.softcap == 0.0
        assert not layer.has_sink
    compare_ropes(meaning, oracle)


def as_oracle(layer: LayerMeaning, expected: OracleLayer) -> OracleLayer:
    """Return a layer in the oracle's words; columns are the kernel less one, 0 of them no row."""
    rows = {row.kind: row.row_shape for row in layer.fixed}
    conv = rows.get(GroupKind.FIXED_CONV)
    if conv is not None and layer.kind is not LayerKind.CONV:
        conv = (conv[0], conv[1] + 1)
    if conv is None and expected.conv is not None and expected.conv[1] == 1:
        conv = expected.conv
    return OracleLayer(
        kind=layer.kind,
        num_heads=layer.num_heads,
        kv_num_heads=layer.kv_num_heads,
        head_size=layer.head_size,
        v_head_size=layer.v_head_size,
        scale=expected.scale,
        window=layer.window,
        chunk_tokens=layer.chunk_tokens,
        has_rope=layer.rope is not None,
        has_qk_norm=layer.has_qk_norm,
        shares_cache_of=layer.shares_cache_of,
        conv=None if conv is None else (conv[0], conv[1]),
        recurrent=rows.get(GroupKind.FIXED_RECURRENT, ()),
    )


def compare_ropes(meaning: ModelMeaning, oracle: Oracle) -> None:
    seen: set[tuple[int, str]] = set()
    for index, layer in enumerate(meaning.layers):
        key = (-1 if layer.rope is None else layer.rope, oracle.layer_type(index))
        if layer.rope is None or key in seen:
            continue
        seen.add(key)
        expected, factor = oracle.frequencies(oracle.layer_type(index))
        found, found_factor = inverse_frequencies(meaning.ropes[layer.rope], 1)
        assert found.shape == tuple(expected.shape)
        np.testing.assert_allclose(found, expected.double().numpy(), rtol=2e-5, atol=0.0)
        assert found_factor == pytest.approx(factor, rel=1e-12)


def seen_by(layer: LayerMeaning, tokens: int) -> torch.Tensor:
    query, key = torch.arange(tokens)[:, None], torch.arange(tokens)[None, :]
    allowed = key <= query
    if layer.window >= 0:
        allowed = allowed & (key > query - layer.window)
    if layer.chunk_tokens:
        allowed = allowed & (key // layer.chunk_tokens == query // layer.chunk_tokens)
    return allowed


def run(config: Mapping[str, Any]) -> None:
    """Construct a small model with weights and run six tokens through it, as transformers would."""
    kind: Any = getattr(transformers, config["architectures"][0])
    values = {key: copy.deepcopy(value) for key, value in config.items() if key != "model_type"}
    model = kind._from_config(kind.config_class(**values), attn_implementation="eager").eval()
    with torch.no_grad():
        model(torch.tensor([[1, 2, 3, 4, 5, 6]]))
