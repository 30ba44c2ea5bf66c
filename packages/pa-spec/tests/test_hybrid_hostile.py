"""Whatever a hybrid's configuration holds is a finding: no exception, no memory by its numbers."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hybrid_samples import SAMPLES, resolve
from hypothesis import given
from hypothesis import strategies as st
from pa_spec.contract.finding_kind import Severity
from pa_spec.validation.manifest import check_manifest

KEYS = [
    *sorted({key for config in SAMPLES.values() for key in config} - {"model_type"}),
    "layer_types",
    "layers_block_type",
    "rope_scaling",
    "rope_parameters",
    "per_layer_config",
    "no_rope_layers",
    "text_config",
    "tie_word_embeddings",
    "mrope_section",
    "num_global_key_value_heads",
    "num_kv_shared_layers",
    "partial_rotary_factor",
    "rotary_dim",
]
NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 8, 64, -1, 2**31, 2**63, 10**30, 0.5, 1e308])
WORDS = st.sampled_from(["full_attention", "mamba", "conv", "yarn", "M*", "auto", "rope", "", "8"])
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS
INSIDE = st.sampled_from([*KEYS, "full_attention", "factor", "rope_theta", "attention", "0", "01"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(INSIDE, inner, max_size=4),
    max_leaves=8,
)
MODEL_TYPES = [*sorted(SAMPLES), "kimi_k2", "deepseek_v2", "deepseek_v32", "glm_moe_dsa"]
OTHERS = ["qwen3_next", "qwen3_5_moe_text", "minimax_m2", "qwen3_5", "gemma4", "llama4", "lfm2_vl"]
CHANGES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@given(st.sampled_from([*MODEL_TYPES, *OTHERS]), st.sampled_from(sorted(SAMPLES)), CHANGES)
def test_any_configuration_resolves_or_has_a_violation(
    model_type: str, base: str, changes: dict[str, Any]
) -> None:
    meaning, found = resolve({**SAMPLES[base], **changes, "model_type": model_type})

    if meaning is None:
        assert {Severity.VIOLATION, Severity.UNREADABLE} & {each.severity for each in found}
        return
    assert all(layer.head_size % 8 == 0 for layer in meaning.layers)
    assert all(layer.rope is None or layer.rope < len(meaning.ropes) for layer in meaning.layers)
    if meaning.manifest is not None:
        check_manifest(meaning.manifest, len(meaning.layers))


@given(st.sampled_from(sorted(SAMPLES)), st.sampled_from(KEYS), VALUES)
def test_one_changed_value_is_reported_at_most_once(base: str, key: str, value: Any) -> None:
    _, found = resolve({**SAMPLES[base], key: value})

    severe = [(each.id, each.place, each.name) for each in found]
    assert len(severe) == len(set(severe))


@pytest.mark.parametrize("model_type", sorted(SAMPLES))
@pytest.mark.parametrize("layers", [10**12, 2**31 - 1, 10**5])
def test_a_claimed_number_of_layers_takes_neither_time_nor_memory(
    model_type: str, layers: int
) -> None:
    config = SAMPLES[model_type] | {"num_hidden_layers": layers}
    begun = time.perf_counter()
    tracemalloc.start()

    meaning, _ = resolve(config)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Nemotron's pattern and DeciLM's blocks say how many layers there are; the number is not read.
    assert (meaning is None) == (model_type != "nemotron_h")
    assert peak < 4 * 2**20
    assert time.perf_counter() - begun < 2.0


@pytest.mark.parametrize(
    ("model_type", "key", "value"),
    [
        ("nemotron_h", "hybrid_override_pattern", "M" * 10**6),
        ("nemotron_h", "layer_types", ["mamba"] * 10**6),
        ("lfm2", "full_attn_idxs", list(range(10**6))),
        ("lfm2", "layer_types", ["conv"] * 10**6),
        ("llama4_text", "no_rope_layers", [1] * 10**6),
        ("nemotron-nas", "block_configs", [{}] * 10**6),
        ("gemma4_text", "per_layer_config", {str(index): {} for index in range(10**5)}),
    ],
)
def test_a_long_list_is_refused_or_ignored_in_a_few_words(
    model_type: str, key: str, value: Any
) -> None:
    begun = time.perf_counter()

    _, found = resolve(SAMPLES[model_type] | {key: value})

    assert found
    assert max(len(str(each)) for each in found) < 400
    assert time.perf_counter() - begun < 5.0
