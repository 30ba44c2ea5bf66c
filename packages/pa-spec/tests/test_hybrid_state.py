"""Fixed state of hybrids: the bytes of contract section 18, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from hybrid_samples import FALCON, GRANITE, LFM2, NEMOTRON, QWEN35, meaning_of
from pa_spec.checker.meaning import FixedRow, LayerKind
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind

EXAMPLE_4096 = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "linear_num_value_heads": 32,
}
EXAMPLE_27B = {
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "linear_num_value_heads": 48,
}
LFM2_8B = {"num_hidden_layers": 24, "full_attn_idxs": [2, 6, 10, 14, 18, 21]}
LFM2_1024 = {"hidden_size": 1024, "num_attention_heads": 16}


@pytest.mark.parametrize(
    ("config", "conv", "recurrent", "total", "per_token"),
    [
        (LFM2, 12_288, 0, 122_880, 12_288),
        (LFM2 | LFM2_1024, 6_144, 0, 61_440, 12_288),
        (LFM2 | LFM2_8B, 12_288, 0, 221_184, 12_288),
        (QWEN35, 36_864, 1_048_576, 19_537_920, 12_288),
        (QWEN35 | EXAMPLE_4096, 49_152, 2_097_152, 51_511_296, 32_768),
        (QWEN35 | EXAMPLE_27B, 61_440, 3_145_728, 153_944_064, 65_536),
    ],
    ids=["LFM2-1.2B", "LFM2 of 1024", "LFM2-8B", "Qwen3.5 small", "Qwen3.5 of 4096", "27B"],
)
def test_bytes_are_those_of_the_contract(
    config: dict[str, Any], conv: int, recurrent: int, total: int, per_token: int
) -> None:
    meaning = meaning_of(config)

    sums = dict.fromkeys(GroupKind, 0)
    for row in next(layer.fixed for layer in meaning.layers if layer.fixed):
        sums[row.kind] += row.row_bytes
    assert sums[GroupKind.FIXED_CONV] == conv
    assert sums[GroupKind.FIXED_RECURRENT] == recurrent
    assert meaning.fixed_bytes_per_request == total
    assert meaning.kv_bytes_per_token == per_token


def test_recurrent_state_is_float32_whatever_the_weights_are() -> None:
    layer = meaning_of(QWEN35 | {"dtype": "bfloat16"}).layers[0]

    assert layer.kind is LayerKind.LINEAR_ATTENTION
    assert layer.fixed == (
        FixedRow(GroupKind.FIXED_CONV, (6144, 3), ElementType.BFLOAT16),
        FixedRow(GroupKind.FIXED_RECURRENT, (16, 128, 128), ElementType.FLOAT32),
    )


def test_heads_of_values_and_keys_are_not_exchanged() -> None:
    changed = {"linear_num_value_heads": 32, "linear_value_head_dim": 64}

    conv, recurrent = meaning_of(QWEN35 | changed).layers[0].fixed

    assert conv.row_shape == (2 * 16 * 128 + 32 * 64, 3)
    assert recurrent.row_shape == (32, 64, 128)


def test_a_kernel_of_one_position_keeps_no_earlier_input() -> None:
    fixed = meaning_of(QWEN35 | {"linear_conv_kernel_dim": 1}).layers[0].fixed

    assert [row.kind for row in fixed] == [GroupKind.FIXED_RECURRENT]


@pytest.mark.parametrize(
    ("config", "conv", "recurrent"),
    [
        (NEMOTRON, (64 * 64 + 2 * 8 * 128, 3), (64, 64, 128)),
        (FALCON, (3072 + 2 * 256, 3), (24, 128, 256)),
        (FALCON | {"mamba_d_ssm": None, "mamba_d_head": "auto"}, (6656, 3), (24, 256, 256)),
        (GRANITE | {"layer_types": ["mamba"] * 2}, (8192 + 2 * 256, 3), (128, 64, 256)),
    ],
    ids=["nemotron", "falcon", "falcon without a width", "granite"],
)
def test_mamba_keeps_its_convolved_channels_and_a_state_for_each_head(
    config: dict[str, Any], conv: tuple[int, ...], recurrent: tuple[int, ...]
) -> None:
    fixed = meaning_of(config).layers[0].fixed

    assert [row.row_shape for row in fixed] == [conv, recurrent]


def test_a_hybrid_without_mamba_layers_keeps_nothing_fixed() -> None:
    meaning = meaning_of(GRANITE)

    assert meaning.fixed_bytes_per_request == 0
    assert [layer.kind for layer in meaning.layers] == [LayerKind.ATTENTION] * 2
    assert {layer.scale for layer in meaning.layers} == {0.0078125}
