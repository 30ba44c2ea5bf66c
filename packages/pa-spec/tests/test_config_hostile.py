"""Whatever JSON a config.json holds: findings, never an exception, and never long."""

from __future__ import annotations

import time
from typing import Any

import pytest
from config_cases import resolved, small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pa_spec.checker import ModelMeaning
from pa_spec.checker.huggingface.config.family import families, nested_models
from pa_spec.checker.huggingface.rope.frequency import inverse_frequencies
from pa_spec.contract.finding_kind import Severity

LONGEST_SECONDS = 2.0

_KEYS = sorted(
    {key for family in families().values() for key in (*family.defaults, *family.nullable)}
    | {alias for family in families().values() for alias in family.aliases.values()}
    | {
        "architectures",
        "attn_logit_softcapping",
        "dtype",
        "head_dim",
        "layer_types",
        "no_rope_layers",
        "num_key_value_heads",
        "original_max_position_embeddings",
        "partial_rotary_factor",
        "rope_local_base_freq",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "sliding_window",
        "sliding_window_pattern",
        "text_config",
        "torch_dtype",
        "use_bidirectional_attention",
    }
)
_ROPE_KEYS = (
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "full_attention",
    "high_freq_factor",
    "llama_4_scaling_beta",
    "long_factor",
    "long_mscale",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "short_mscale",
    "sliding_attention",
    "truncate",
    "type",
)
_WORDS = (
    *("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "su"),
    *("full_attention", "sliding_attention", "conv", "bfloat16", "LLLG", ""),
)
_ODD_NUMBERS = st.sampled_from(
    [
        0,
        -1,
        1,
        2,
        7,
        8,
        64,
        2**31,
        2**60,
        2**63,
        2**2000,
        -(2**2000),
        0.0,
        -0.0,
        1e-320,
        1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
    ]
)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | _ODD_NUMBERS
    | st.sampled_from(_WORDS) | st.text(max_size=4)
)  # fmt: skip
_ROPES = st.dictionaries(
    st.sampled_from(_ROPE_KEYS),
    _SCALARS
    | st.lists(_SCALARS, max_size=9)
    | st.dictionaries(st.sampled_from(_ROPE_KEYS), _SCALARS, max_size=4),
    max_size=6,
)
_VALUES = st.recursive(
    _SCALARS | _ROPES,
    lambda each: (
        st.lists(each, max_size=5) | st.dictionaries(st.text(max_size=3), each, max_size=3)
    ),
    max_leaves=8,
)
_MODEL_TYPES = st.sampled_from([*families(), *nested_models(), "bert", "nobody"])
_CONFIGS = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8)


def check(config: dict[str, Any]) -> None:
    """Resolve a configuration and everything that follows from it, within a time limit."""
    start = time.process_time()

    meaning, findings = resolved(config)

    weights = {each.severity for each in findings}
    assert meaning is not None or weights & {Severity.VIOLATION, Severity.UNREADABLE}
    assert all(len(str(each)) < 1000 for each in findings)
    if meaning is not None:
        follow(meaning)
    assert time.process_time() - start < LONGEST_SECONDS


def follow(meaning: ModelMeaning) -> None:
    """Compute what a report says of a meaning."""
    assert meaning.context_tokens > 0
    assert meaning.kv_bytes_per_token >= 0
    for rope in meaning.ropes:
        for tokens in (0, rope.original_tokens, 2**40):
            frequencies, _ = inverse_frequencies(rope, tokens)
            assert len(frequencies) == rope.rotary_dim // 2


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_MODEL_TYPES, _CONFIGS)
def test_any_json_in_any_key_is_answered(model_type: str, config: dict[str, Any]) -> None:
    check({"model_type": model_type, **config})


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_MODEL_TYPES, _CONFIGS)
def test_any_json_in_keys_of_a_sound_configuration_is_answered(
    model_type: str, config: dict[str, Any]
) -> None:
    sound = small(model_type, head_dim=16)
    check({**sound, **config})
    check({"model_type": model_type, "text_config": {**sound, **config}})


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_MODEL_TYPES, st.sampled_from(["rope_scaling", "rope_parameters"]), _ROPES)
def test_any_json_in_a_rope_object_is_answered(
    model_type: str, key: str, rope: dict[str, Any]
) -> None:
    check({**small(model_type, head_dim=16), key: rope})


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), _SCALARS)
def test_any_model_type_is_answered(config: dict[str, Any], model_type: object) -> None:
    check({**config, "model_type": model_type})


@pytest.mark.parametrize(
    "config",
    [
        small(num_hidden_layers=2**60),
        small(head_dim=2**31 - 8),
        small(max_position_embeddings=2**31 - 1),
        small(layer_types=["full_attention"] * 1_000_000),
        small(architectures=["x" * 1000] * 10_000),
        small("phi3", rope_scaling={"type": "longrope", "short_factor": [1.0] * 1_000_000}),
        small("gemma3_text", rope_parameters={str(i): {} for i in range(100_000)}),
        small("exaone4", sliding_window_pattern="L" * 10_000_000),
        small("smollm3", no_rope_layers=[1] * 1_000_000),
    ],
    ids=lambda config: max(config, key=lambda key: len(str(config[key]))),
)
def test_enormous_values_are_answered_at_once(config: dict[str, Any]) -> None:
    check(config)
