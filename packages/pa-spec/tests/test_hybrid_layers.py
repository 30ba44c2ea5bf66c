"""Kinds of layers from each spelling, and what each kind does."""

from __future__ import annotations

from typing import Any

import pytest
from hybrid_samples import (
    DECILM,
    GEMMA4,
    LLAMA4,
    NEMOTRON,
    meaning_of,
    messages,
    resolve,
)
from pa_spec.checker.meaning import NO_WINDOW, LayerKind
from pa_spec.checker.serving import backends_of

ATTENTION, NONE, MAMBA = LayerKind.ATTENTION, LayerKind.NONE, LayerKind.MAMBA


def kinds(config: dict[str, Any]) -> list[LayerKind]:
    return [layer.kind for layer in meaning_of(config).layers]


def found(config: dict[str, Any]) -> list[str]:
    """Return what is found beside the absence of a manifest."""
    return [each for each in messages(config) if "(hybrid.state)" not in each]


def test_each_letter_of_a_pattern_is_a_layer() -> None:
    assert kinds(NEMOTRON | {"hybrid_override_pattern": "*M-E"}) == [ATTENTION, MAMBA, NONE, NONE]


def test_an_odd_letter_refuses_the_pattern() -> None:
    config = NEMOTRON | {"hybrid_override_pattern": "M*\N{GREEK CAPITAL LETTER MU}m"}

    assert resolve(config)[0] is None
    assert found(config) == [
        (
            "config.json: hybrid_override_pattern: expected letters of M * E -, got m "
            "\N{GREEK CAPITAL LETTER MU} (config.unknown_value)"
        )
    ]


def test_chunks_that_a_sequence_can_leave_are_no_mask_of_the_operator() -> None:
    assert [layer.chunk_tokens for layer in meaning_of(LLAMA4).layers] == [8192] * 3 + [0]
    assert messages(LLAMA4) == [
        (
            "config.json: attention_chunk_size: expected all earlier positions or a sliding "
            "window; the operator has no chunks, got chunks of 8192 tokens in layers 0, 1, 2 "
            "(hybrid.mask)"
        ),
        (
            "config.json: attn_temperature_tuning: expected a decoder that scales the query "
            "itself, got a scale that grows with the position in layer 3 (hybrid.query_scale)"
        ),
    ]


def test_no_backend_serves_chunks_that_a_sequence_can_leave() -> None:
    reasons = backends_of(meaning_of(LLAMA4))

    assert set(reasons.values()) == {"the operator has no mask of chunks (layers 0-2)"}
    assert backends_of(meaning_of(LLAMA4 | {"max_position_embeddings": 8192}))["reference"] == ""


def test_chunks_as_long_as_the_context_are_ordinary_attention() -> None:
    config = LLAMA4 | {"max_position_embeddings": 8192, "attn_temperature_tuning": False}

    assert messages(config) == []


def test_rotated_layers_alone_are_normalized() -> None:
    layers = meaning_of(LLAMA4).layers

    assert [layer.rope for layer in layers] == [0, 0, 0, None]
    assert [layer.has_qk_norm for layer in layers] == [True, True, True, False]


def test_windows_and_widths_follow_the_type_of_a_layer() -> None:
    layers = meaning_of(GEMMA4).layers

    assert [layer.window for layer in layers] == [1024] * 5 + [NO_WINDOW]
    assert [layer.head_size for layer in layers] == [256] * 5 + [512]
    assert {layer.scale for layer in layers} == {1.0}


def test_widths_of_single_layers_replace_those_by_name() -> None:
    config = GEMMA4 | {"per_layer_config": {"5": {"head_dim": 128, "num_key_value_heads": 4}}}

    layers = meaning_of(config).layers

    assert [(layer.kv_num_heads, layer.head_size) for layer in layers] == [(8, 256)] * 5 + [
        (4, 128)
    ]


def test_blocks_say_what_each_layer_is_though_transformers_has_no_code() -> None:
    meaning = meaning_of(DECILM)

    assert [layer.kv_num_heads for layer in meaning.layers] == [8, 0, 0]
    assert messages(DECILM) == [
        (
            "config.json: model_type: expected a family that transformers has modelling code for, "
            "and that is resolved, got nemotron-nas: its modelling code travels with the "
            "checkpoint (config.refused_family)"
        )
    ]


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (
            {"n_heads_in_group": None},
            (
                "block_configs.0.attention: n_heads_in_group: expected a value, got nothing "
                "(config.missing)"
            ),
        ),
        (
            {"n_heads_in_group": 7},
            (
                "block_configs.0.attention: n_heads_in_group: expected a divisor of "
                "num_attention_heads=64, got 7 (config.contradiction)"
            ),
        ),
        (
            {"n_heads_in_group": 8, "num_sink_tokens": 4},
            (
                "block_configs.0.attention: num_sink_tokens: expected null or false, got 4 "
                "(config.unsupported)"
            ),
        ),
        (None, "block_configs.0.attention: expected an object, got null (config.wrong_type)"),
    ],
    ids=["no group", "uneven group", "sinks", "null"],
)
def test_a_block_that_cannot_be_read_is_refused(attention: Any, message: str) -> None:
    config = DECILM | {"block_configs": [{"attention": attention}], "num_hidden_layers": 1}

    assert resolve(config)[0] is None
    assert messages(config)[1:] == [f"config.json: {message}"]


def test_a_recurrence_without_attention_is_refused_by_name() -> None:
    assert messages({"model_type": "rwkv5", "hidden_size": 2560}) == [
        (
            "config.json: model_type: expected a family that transformers has modelling code for, "
            "and that is resolved, got rwkv5: a recurrence without attention: nothing of it is "
            "paged (config.refused_family)"
        )
    ]
