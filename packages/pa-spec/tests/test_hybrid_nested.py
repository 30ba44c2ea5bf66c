"""Decoders inside multimodal files: which of two flags counts, and keys in the wrong place."""

from __future__ import annotations

from typing import Any

import pytest
from hybrid_samples import GEMMA4, LFM2, LLAMA4, QWEN35, meaning_of, messages, resolve

MINISTRAL: dict[str, Any] = {
    "model_type": "ministral3",
    "hidden_size": 3072,
    "vocab_size": 131072,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000000.0,
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "llama_4_scaling_beta": 0.1,
    },
    "dtype": "bfloat16",
}
SHORT_LLAMA4 = LLAMA4 | {"max_position_embeddings": 8192, "attn_temperature_tuning": False}
CAUSES = {"hybrid.state", "hybrid.query_scale"}


def nested(
    model_type: str, inside: dict[str, Any], outer: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """Return a file whose decoder is `inside` with some keys changed."""
    return {"model_type": model_type, "text_config": {**inside, **changes}, **(outer or {})}


def found(config: dict[str, Any]) -> list[str]:
    """Return what is found beside what the decoder itself gives rise to."""
    return [each for each in messages(config) if not any(cause in each for cause in CAUSES)]


@pytest.mark.parametrize(
    ("model_type", "inside", "is_tied"),
    [
        ("qwen3_5", QWEN35, False),
        ("qwen3_5_moe", QWEN35, False),
        ("lfm2_vl", LFM2, True),
        ("gemma4", GEMMA4, True),
        ("mistral3", MINISTRAL, True),
        ("llama4", SHORT_LLAMA4, False),
    ],
)
def test_embeddings_are_tied_as_the_outer_class_has_it_by_default(
    model_type: str, inside: dict[str, Any], *, is_tied: bool
) -> None:
    assert meaning_of(nested(model_type, inside)).has_tied_embeddings is is_tied


@pytest.mark.parametrize("outer", [True, False])
def test_the_outer_flag_wins_and_the_inner_is_reported(*, outer: bool) -> None:
    flag = {"tie_word_embeddings": outer}
    config = nested("qwen3_5", QWEN35, flag, tie_word_embeddings=not outer)

    said, used = str(not outer).lower(), outer

    assert meaning_of(config).has_tied_embeddings is outer
    assert found(config) == [
        (
            f"config.json: text_config: tie_word_embeddings: expected what tie_word_embeddings "
            f"says, which is used: {used}, got {said} (config.disagreement)"
        )
    ]


@pytest.mark.parametrize("inner", [True, False])
def test_a_decoder_that_is_a_model_of_its_own_has_the_flag_that_counts(*, inner: bool) -> None:
    flag = {"tie_word_embeddings": not inner}
    config = nested("llama4", SHORT_LLAMA4, flag, tie_word_embeddings=inner)

    said = str(not inner).lower()

    assert meaning_of(config).has_tied_embeddings is inner
    assert found(config) == [
        (
            f"config.json: tie_word_embeddings: expected what text_config.tie_word_embeddings "
            f"says, which is used: {inner}, got {said} (config.disagreement)"
        )
    ]


def test_of_two_names_of_the_flag_the_older_wins() -> None:
    flags = {"tie_embedding": False, "tie_word_embeddings": True}

    assert not meaning_of(nested("lfm2_vl", LFM2, flags)).has_tied_embeddings
    assert found(nested("lfm2_vl", LFM2, flags)) == [
        (
            "config.json: tie_word_embeddings: expected what tie_embedding says, which is used: "
            "False, got true (config.disagreement)"
        )
    ]
    assert not meaning_of(LFM2 | flags).has_tied_embeddings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("partial_rotary_factor", 0.5),
        ("rope_theta", 5.0),
        ("num_key_value_heads", 4),
        ("max_position_embeddings", 4096),
    ],
)
def test_a_key_beside_the_decoder_is_not_read_and_reported(key: str, value: float) -> None:
    plain = nested("qwen3_5", QWEN35)

    assert meaning_of(plain | {key: value}) == meaning_of(plain)
    assert found(plain | {key: value}) == [
        (
            f"config.json: {key}: expected text_config.{key}, which is read in its place, got "
            f"{value} (config.ignored)"
        )
    ]


def test_a_key_that_is_written_alike_in_both_places_is_no_finding() -> None:
    assert found(nested("qwen3_5", QWEN35, {"hidden_size": 1024})) == []


@pytest.mark.parametrize(
    ("words", "rotary_dim"),
    [
        ({}, 64),
        ({"partial_rotary_factor": 0.5}, 128),
        ({"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e7}}, 128),
        (
            {
                "partial_rotary_factor": 1.0,
                "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e7},
            },
            256,
        ),
    ],
    ids=["class default", "beside", "inside", "beside an older spelling"],
)
def test_a_rotated_part_is_found_in_either_place(words: dict[str, Any], rotary_dim: int) -> None:
    assert meaning_of(nested("qwen3_5", QWEN35, None, **words)).ropes[0].rotary_dim == rotary_dim


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ([11, 11], "expected three numbers: of time, height and width, got 2 numbers"),
        ([16, 8, 4], "expected 32 pairs of channels together, got 28"),
        ("11", "expected a list of integers, got 11"),
    ],
)
def test_sections_of_the_position_axes_are_checked(sections: Any, message: str) -> None:
    rope = {"rope_theta": 1e7, "rope_type": "default", "mrope_section": sections}
    config = nested("qwen3_5", QWEN35, None, rope_parameters=rope)

    (only,) = found(config)

    assert message in only
    assert "rope_parameters: mrope_section" in only


def test_sections_are_kept_beside_the_frequencies() -> None:
    assert meaning_of(nested("qwen3_5", QWEN35)).ropes[0].sections == (11, 11, 10)


def test_ids_that_end_a_turn_inside_are_left_to_who_reads_all_files() -> None:
    config = nested("qwen3_5", QWEN35, None, eos_token_id=[248044, 248046])

    assert meaning_of(config).eos == ()
    assert found(config) == []


def test_queries_that_are_scaled_by_position_are_noted() -> None:
    assert messages(nested("mistral3", MINISTRAL)) == [
        (
            "config.json: text_config.rope_parameters: llama_4_scaling_beta: expected a decoder "
            "that scales the query itself, got a scale that grows every 16384 positions in all "
            "layers (hybrid.query_scale)"
        )
    ]


@pytest.mark.parametrize("ratio", [1, 2, 3, 5, 6, 7, 8, 12, 16, 71])
def test_any_number_of_heads_shares_a_pair_of_caches(ratio: int) -> None:
    numbers = {"num_attention_heads": 2 * ratio, "num_key_value_heads": 2}

    layer = meaning_of(QWEN35 | numbers).layers[3]

    assert (layer.num_heads, layer.kv_num_heads) == (2 * ratio, 2)


@pytest.mark.spec("V2")
def test_heads_that_do_not_divide_are_refused_once() -> None:
    config = QWEN35 | {"num_attention_heads": 7}

    assert resolve(config)[0] is None
    assert messages(config) == [
        "config.json: num_key_value_heads: expected a positive divisor of num_heads=7, got 2 (V2)"
    ]
