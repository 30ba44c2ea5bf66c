"""What a configuration resolves to; test_config_parity.py compares it with transformers."""

from __future__ import annotations

from typing import Any

import pytest
from config_cases import meaning_of, resolved, small, without
from pa_spec import ElementType, GroupKind
from pa_spec.checker import NO_WINDOW
from pa_spec.checker.huggingface.config.family import Family, families, nested_models, refusals
from pa_spec.checker.huggingface.config.resolve import _RESOLVERS
from pa_spec.contract.finding_kind import Severity


def windows(config: dict[str, Any]) -> list[int]:
    """Return the window of each layer."""
    return [layer.window for layer in meaning_of(config).layers]


def test_every_family_names_a_resolver_and_every_model_type_is_known_once() -> None:
    assert {family.resolver for family in families().values()} <= set(_RESOLVERS)
    known = [*families(), *nested_models(), *refusals()]
    assert len(known) == len(set(known))
    assert {each.text_model_type for each in nested_models().values()} <= set(families())


def needed(family: Family) -> list[str]:
    """Return the keys that a file of a dense family has to write: the class defaults do not do."""
    found = ["head_dim"] if family.head_size == "written" else []
    heads = family.defaults["num_attention_heads"]
    if family.defaults["hidden_size"] % heads and "head_dim" not in family.defaults:
        found.append("hidden_size")
    channels = family.defaults["hidden_size"] // heads
    if family.rules.get("are_sections_cut") and 2 * sum(family.rules["sections"]) != channels:
        found = found or ["mrope_section"]
    return [*found, *family.rules.get("required", ())]


def test_every_family_resolves_from_its_class_defaults_or_says_what_it_needs() -> None:
    for model_type, family in families().items():
        meaning, findings = resolved({"model_type": model_type})

        heavy = [each for each in findings if each.severity is Severity.VIOLATION]
        if family.resolver == "dense":
            assert [each.name for each in heavy] == needed(family), model_type
        assert meaning is not None or heavy, model_type


def test_window_null_means_no_window() -> None:
    assert windows(small("mistral", sliding_window=None)) == [NO_WINDOW] * 4


def test_window_counts_the_current_token_as_the_configuration_does() -> None:
    assert windows(small("mistral", sliding_window=8)) == [8] * 4


def test_unused_window_is_none() -> None:
    config = small("qwen2", sliding_window=8, max_window_layers=1, use_sliding_window=False)

    assert windows(config) == [NO_WINDOW] * 4


def test_layers_from_max_window_layers_on_have_the_window() -> None:
    config = small("qwen2", sliding_window=8, max_window_layers=3, use_sliding_window=True)

    assert windows(config) == [NO_WINDOW, NO_WINDOW, NO_WINDOW, 8]


def test_layer_types_overrule_the_pattern() -> None:
    types = ["full_attention", "sliding_attention"] * 2

    assert windows(small("gpt_oss", sliding_window=8, layer_types=types)) == [NO_WINDOW, 8] * 2


def test_head_size_null_and_absent_are_derived_and_explicit_is_taken() -> None:
    assert meaning_of(small(head_dim=None)).layers[0].head_size == 16
    assert meaning_of(small()).layers[0].head_size == 16
    meaning, _ = resolved(small(head_dim=32))
    assert meaning is not None
    assert meaning.layers[0].head_size == 32


def test_missing_kv_heads_are_all_heads_in_llama_and_eight_in_mistral() -> None:
    assert meaning_of(without(small(), "num_key_value_heads")).layers[0].kv_num_heads == 4
    config = without(small("mistral", num_attention_heads=8), "num_key_value_heads")
    assert meaning_of(config).layers[0].kv_num_heads == 8


def test_missing_tie_flag_is_the_class_default() -> None:
    assert meaning_of(without(small("cohere"), "tie_word_embeddings")).has_tied_embeddings
    assert not meaning_of(without(small(), "tie_word_embeddings")).has_tied_embeddings


def test_outer_tie_flag_decides_in_a_nested_file() -> None:
    inside = {**small("gemma3_text"), "head_dim": 16, "tie_word_embeddings": True}

    meaning, findings = resolved(
        {"model_type": "gemma3", "tie_word_embeddings": False, "text_config": inside}
    )

    assert meaning is not None
    assert not meaning.has_tied_embeddings
    assert [each.id for each in findings] == ["config.disagreement"]


def test_state_is_one_paged_group_over_all_layers() -> None:
    meaning = meaning_of(small())

    assert meaning.manifest is not None
    [group] = meaning.manifest.groups
    assert group.kind is GroupKind.PAGED_KV
    assert group.layer_ids == (0, 1, 2, 3)
    assert group.row_shape == (2, 16)
    assert meaning.kv_bytes_per_token == 4 * 2 * 2 * 16 * 2 == group.row_bytes


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"dtype": "float16", "torch_dtype": None}, ElementType.FLOAT16),
        ({"dtype": "half", "torch_dtype": None}, ElementType.FLOAT16),
        ({"torch_dtype": "half"}, ElementType.FLOAT16),
        ({"torch_dtype": "float8_e4m3fn"}, ElementType.FLOAT8E4M3FN),
        ({"torch_dtype": None}, None),
    ],
)
def test_element_type_is_read_in_every_spelling(
    written: dict[str, Any], expected: ElementType | None
) -> None:
    meaning = meaning_of(small(**written))

    assert meaning.element_type is expected
    plain = ElementType.FLOAT16 if expected is ElementType.FLOAT16 else ElementType.FLOAT32
    assert meaning.cache_element_type is plain


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 1024),
        ({"rope_type": "dynamic", "factor": 4.0}, 1024),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, 256),
        ({"rope_type": "yarn", "factor": 4.0}, 1024),
    ],
)
def test_a_stretching_factor_counts_once(rope: dict[str, Any], expected: int) -> None:
    assert meaning_of(small(rope_scaling=rope)).context_tokens == expected


def test_gemma_3_says_its_stretched_length_itself() -> None:
    scaling = {"rope_type": "linear", "factor": 8.0}
    config = small("gemma3_text", head_dim=16, rope_scaling=scaling, sliding_window_pattern=2)

    meaning = meaning_of(config)

    assert meaning.context_tokens == 256
    assert [rope.factor for rope in meaning.ropes] == [1.0, 8.0]


def test_layers_without_rotation_have_no_rope() -> None:
    meaning = meaning_of(small("smollm3", no_rope_layers=[1, 0, 1, 0]))

    assert [layer.rope for layer in meaning.layers] == [0, None, 0, None]


def test_gpt2_keys_are_read_under_their_own_names() -> None:
    config = {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 128,
        "vocab_size": 100,
    }

    meaning = meaning_of(config)

    assert (meaning.hidden_size, len(meaning.layers), meaning.context_tokens) == (64, 2, 128)
    assert meaning.ropes == ()
