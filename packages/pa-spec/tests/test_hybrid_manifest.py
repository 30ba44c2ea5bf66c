"""State groups of hybrids, and the reason where no groups can hold what layers keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hybrid_samples import (
    DECILM,
    DEEPSEEK,
    FALCON,
    GEMMA4,
    LFM2,
    LLAMA4,
    NEMOTRON,
    QWEN35,
    SAMPLES,
    meaning_of,
    messages,
    resolve,
)
from pa_spec.checker.check import check_model
from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.config.manifest import layer_names, state_manifest
from pa_spec.checker.huggingface.decoder.dense import Decoder
from pa_spec.checker.meaning import LayerKind, LayerMeaning
from pa_spec.checker.report import CheckOptions
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind, StateGroup
from pa_spec.validation.manifest import check_manifest

FLOAT16, FLOAT32 = ElementType.FLOAT16, ElementType.FLOAT32


def test_linear_attention_has_three_groups() -> None:
    meaning = meaning_of(QWEN35 | {"num_hidden_layers": 8})

    linear = (0, 1, 2, 4, 5, 6)
    assert meaning.manifest is not None
    assert meaning.manifest.groups == (
        StateGroup(GroupKind.PAGED_KV, (3, 7), (2, 256), FLOAT16),
        StateGroup(GroupKind.FIXED_CONV, linear, (6144, 3), FLOAT16, caches_per_layer=1),
        StateGroup(GroupKind.FIXED_RECURRENT, linear, (16, 128, 128), FLOAT32, caches_per_layer=1),
    )
    check_manifest(meaning.manifest, len(meaning.layers))


def test_a_group_counts_the_bytes_that_the_layers_count() -> None:
    meaning = meaning_of(LFM2)

    assert meaning.manifest is not None
    paged, conv = meaning.manifest.groups
    assert paged.row_bytes == meaning.kv_bytes_per_token
    assert conv.row_bytes == meaning.fixed_bytes_per_request


def test_a_latent_row_is_one_cache_and_its_first_part_the_value() -> None:
    meaning = meaning_of(DEEPSEEK)

    assert meaning.manifest is not None
    assert meaning.manifest.groups == (
        StateGroup(GroupKind.PAGED_KV, (0, 1, 2), (1, 576), ElementType.BFLOAT16, 1, 512),
    )


def test_layers_that_read_another_cache_own_none() -> None:
    types = ["sliding_attention", "full_attention"] * 3
    same = {"global_head_dim": 256, "layer_types": types, "num_kv_shared_layers": 2}

    meaning = meaning_of(GEMMA4 | same)

    assert [layer.shares_cache_of for layer in meaning.layers] == [None] * 4 + [2, 3]
    assert meaning.manifest is not None
    assert meaning.manifest.groups[0].layer_ids == (0, 1, 2, 3)
    assert meaning.kv_bytes_per_token == 4 * 2 * 8 * 256 * 2


def test_layers_without_attention_are_left_out_of_the_paged_group() -> None:
    meaning = meaning_of(DECILM)

    kinds = [LayerKind.ATTENTION, LayerKind.NONE, LayerKind.NONE]
    assert [layer.kind for layer in meaning.layers] == kinds
    assert meaning.manifest is not None
    assert meaning.manifest.groups[0].layer_ids == (0,)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            NEMOTRON,
            (
                "config.json: layers: expected paged_kv, fixed_conv or fixed_recurrent state; "
                "Mamba has no packed operator here, got Mamba state in layers 0, 2 (hybrid.state)"
            ),
        ),
        (
            FALCON,
            (
                "config.json: layers: expected paged_kv, fixed_conv or fixed_recurrent state; "
                "Mamba has no packed operator here, got Mamba state in layers 0, 1 (hybrid.state)"
            ),
        ),
        (
            GEMMA4,
            (
                "config.json: layers: expected one paged_kv group with one row geometry (V82), got "
                "2 x [8, 256] in layers 0, 1, 2, 3, 4; 2 x [8, 512] in layer 5 (hybrid.state)"
            ),
        ),
        (
            LFM2 | {"full_attn_idxs": []},
            (
                "config.json: layers: expected at least one layer with a paged_kv cache (V82), got "
                "no layer that attends to a cache of its own (hybrid.state)"
            ),
        ),
        (
            DEEPSEEK | {"model_type": "deepseek_v32", "architectures": []},
            (
                "config.json: layers: expected keys and values, or one latent row, for each token; "
                "there is no group for index keys, got index keys of width 128, by which 2048 "
                "tokens are chosen (hybrid.state)"
            ),
        ),
    ],
    ids=["mamba", "both in a layer", "two widths", "no cache", "index keys"],
)
@pytest.mark.spec("V82")
def test_state_without_a_group_is_named_and_the_meaning_stays(
    config: dict[str, Any], message: str
) -> None:
    meaning, _ = resolve(config)

    assert meaning is not None
    assert meaning.manifest is None
    assert messages(config) == [message]


@pytest.mark.spec("V20")
def test_values_of_another_width_than_keys_have_no_group() -> None:
    layer = LayerMeaning(LayerKind.ATTENTION, 4, 2, head_size=64, v_head_size=32)
    findings = Findings()

    fields = Fields({}, findings, Place("config.json"))
    assert state_manifest(Decoder((layer,), (), 256), FLOAT16, fields) is None

    assert [str(each) for each in findings] == [
        (
            "config.json: layers: expected values as wide as keys; only LATENT has a v_head_size "
            "of its own (V20), got keys of 64, values of 32 (hybrid.state)"
        )
    ]


def test_an_indexer_that_never_leaves_a_token_out_needs_no_group() -> None:
    short = {"model_type": "deepseek_v32", "architectures": [], "max_position_embeddings": 2048}

    assert meaning_of(DEEPSEEK | short).manifest is not None


def test_chunks_keep_a_manifest_as_their_caches_are_ordinary() -> None:
    assert meaning_of(LLAMA4).manifest is not None


def test_many_layers_are_counted_and_not_listed() -> None:
    assert layer_names([3]) == "layer 3"
    assert layer_names(range(6)) == "layers 0, 1, 2, 3, 4, 5"
    assert layer_names(range(90)) == "layers 0, 1, 2, 3, 4, 5, … (90 in all)"


INDEXED = DEEPSEEK | {"model_type": "deepseek_v32", "architectures": []}


@pytest.mark.parametrize(
    "config",
    [
        *(pytest.param(each, id=name) for name, each in SAMPLES.items()),
        pytest.param(INDEXED, id="index keys"),
        pytest.param(LFM2 | {"full_attn_idxs": []}, id="no attention"),
        pytest.param(LLAMA4 | {"max_position_embeddings": 8192}, id="chunks that nobody leaves"),
    ],
)
def test_no_backend_serves_and_nothing_fits_exactly_where_layers_are_refused(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(config))

    report = check_model(path, CheckOptions(memory_bytes=2**40, length_tokens=1024))

    refused = {"hybrid.state", "hybrid.mask"} & {each.id for each in report.findings}
    assert report.meaning is not None
    assert report.meaning.backends
    assert report.capacity is not None
    assert ("" in report.meaning.backends.values()) is not bool(refused)
    assert (report.capacity.sequences == 0) is bool(report.capacity.obstacle) is bool(refused)


def test_index_keys_are_counted_beside_the_latent_row() -> None:
    meaning = meaning_of(INDEXED)

    assert meaning.manifest is None
    assert [each.index_key_size for each in meaning.layers] == [128] * 3
    assert meaning.kv_bytes_per_token == 3 * (576 + 128) * 2


def test_an_indexer_that_leaves_nothing_out_keeps_no_keys() -> None:
    meaning = meaning_of(INDEXED | {"index_topk": 163840})

    assert meaning.manifest is not None
    assert meaning.kv_bytes_per_token == 3 * 576 * 2
