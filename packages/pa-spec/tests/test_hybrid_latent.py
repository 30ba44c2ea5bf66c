"""Latent attention: the cached row, and a scale that stays that of a head before absorption."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hybrid_samples import DEEPSEEK, meaning_of, messages, resolve
from hypothesis import given
from hypothesis import strategies as st
from pa_spec.checker.meaning import LayerKind


def stretched(factor: float, **more: Any) -> dict[str, Any]:
    return {"type": "yarn", "factor": factor, "original_max_position_embeddings": 4096, **more}


def test_the_row_is_a_latent_and_a_rotated_key() -> None:
    layer = meaning_of(DEEPSEEK).layers[0]

    assert layer.kind is LayerKind.LATENT_ATTENTION
    assert (layer.num_heads, layer.kv_num_heads) == (128, 1)
    assert (layer.head_size, layer.v_head_size) == (576, 512)
    assert layer.kv_elements == 576


def test_the_scale_is_based_on_a_head_and_not_on_the_row() -> None:
    scale = meaning_of(DEEPSEEK).layers[0].scale

    assert scale == pytest.approx(1 / math.sqrt(192), rel=1e-15)


def test_the_temperature_counts_twice_and_leaves_cos_and_sin_alone() -> None:
    scaling = stretched(40, mscale=1.0, mscale_all_dim=1.0)

    scale = meaning_of(DEEPSEEK | {"rope_scaling": scaling}).layers[0].scale

    temperature = 0.1 * math.log(40) + 1
    assert scale == pytest.approx(temperature**2 / math.sqrt(192), rel=1e-15)


@given(st.floats(1.0, 1000.0), st.floats(0.0, 4.0))
def test_the_scale_grows_with_factor_and_share(factor: float, share: float) -> None:
    def scale(**words: Any) -> float:
        return meaning_of(DEEPSEEK | {"rope_scaling": stretched(**words)}).layers[0].scale

    here = scale(factor=factor, mscale_all_dim=share)

    assert here >= 1 / math.sqrt(192) * (1 - 1e-12)
    assert scale(factor=factor * 2, mscale_all_dim=share) >= here
    assert scale(factor=factor, mscale_all_dim=share * 2) >= here


@pytest.mark.parametrize("heads", [1, 4, 8, 12, 16, 128])
def test_any_number_of_heads_shares_the_row(heads: int) -> None:
    numbers = {"num_attention_heads": heads, "num_key_value_heads": heads}

    layer = meaning_of(DEEPSEEK | numbers).layers[0]

    assert (layer.num_heads, layer.kv_num_heads, layer.head_size) == (heads, 1, 576)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"num_key_value_heads": 8},
            (
                "num_key_value_heads: expected num_attention_heads=128, as every head has keys of "
                "its own, got 8 (config.contradiction)"
            ),
        ),
        (
            {"head_dim": 192},
            (
                "head_dim: expected qk_rope_head_dim=64, as the rotary embedding takes head_dim's "
                "width, got 192 (config.contradiction)"
            ),
        ),
        (
            {"kv_lora_rank": 500},
            "kv_lora_rank: expected a multiple of 8, got 500 (V106)",
        ),
        (
            {"qk_rope_head_dim": 60},
            "qk_rope_head_dim: expected a head size divisible by 8, got 60 (V10)",
        ),
        (
            {"kv_lora_rank": None},
            "kv_lora_rank: expected an integer, got null (config.not_a_number)",
        ),
    ],
    ids=["grouped", "head_dim", "latent", "rotated", "null"],
)
@pytest.mark.spec("V10")
@pytest.mark.spec("V106")
def test_widths_that_cannot_be_are_refused_for_one_reason(
    changed: dict[str, Any], message: str
) -> None:
    meaning, _ = resolve(DEEPSEEK | changed)

    assert meaning is None
    assert messages(DEEPSEEK | changed) == [f"config.json: {message}"]


def test_pairs_are_neighbours_unless_the_file_says_otherwise() -> None:
    assert meaning_of(DEEPSEEK).ropes[0].interleaved
    assert not meaning_of(DEEPSEEK | {"rope_interleave": False}).ropes[0].interleaved


def test_a_model_type_that_transformers_does_not_know_is_read_as_its_class() -> None:
    kimi = DEEPSEEK | {"model_type": "kimi_k2"}

    assert meaning_of(kimi).layers == meaning_of(DEEPSEEK).layers
    assert messages(kimi) == [
        (
            "config.json: model_type: expected a model type of transformers; read as deepseek_v3, "
            "whose class the file names, got kimi_k2 (hybrid.read_as)"
        )
    ]
