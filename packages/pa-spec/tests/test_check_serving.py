"""Goal: a model's layers are served by exactly the backends that serve their calls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pa_spec import ElementType, GroupKind, StateGroup, StateManifest, backends, validate
from pa_spec.checker import LayerKind, LayerMeaning, ModelMeaning
from pa_spec.checker.serving import backends_of, decode_step

PLAIN = LayerMeaning(LayerKind.ATTENTION, 8, 2, 64, 64, scale=0.125)
LATENT = LayerMeaning(LayerKind.LATENT_ATTENTION, 16, 1, 576, 512, scale=0.07)

KEPT = StateManifest((StateGroup(GroupKind.PAGED_KV, (0,), (2, 64), ElementType.BFLOAT16),))


def meaning(
    *layers: LayerMeaning, element_type: ElementType = ElementType.BFLOAT16
) -> ModelMeaning:
    return ModelMeaning(
        model_type="x",
        architecture="X",
        family="x",
        vocab_size=100,
        hidden_size=64,
        context_tokens=1024,
        layers=layers,
        ropes=(),
        has_tied_embeddings=False,
        element_type=element_type,
        cache_element_type=element_type,
        manifest=KEPT,
    )


@pytest.mark.parametrize(
    "layer",
    [
        PLAIN,
        LATENT,
        replace(PLAIN, window=128, softcap=50.0, has_sink=True),
        replace(PLAIN, has_qk_norm=True, kv_num_heads=8),
    ],
)
def test_decode_step_of_a_layer_keeps_every_rule(layer: LayerMeaning) -> None:
    assert validate(decode_step(layer, ElementType.FLOAT16)) == ()


@pytest.mark.parametrize("v_head_size", [0, 32, 64])
def test_values_have_the_width_that_the_layer_says(v_head_size: int) -> None:
    inputs = decode_step(replace(PLAIN, v_head_size=v_head_size), ElementType.FLOAT16).inputs

    width = v_head_size or 64
    assert inputs.value is not None
    assert inputs.value_cache is not None
    assert (inputs.value.shape, inputs.value_cache.shape) == ((1, 2 * width), (1, 16, 2, width))


def test_state_that_no_groups_hold_is_served_by_nobody() -> None:
    answers = backends_of(replace(meaning(PLAIN), manifest=None))

    assert answers == dict.fromkeys(backends(), "no state groups hold what its layers keep")


def test_every_backend_answers() -> None:
    answers = backends_of(meaning(PLAIN, PLAIN))

    assert list(answers) == list(backends())
    assert answers["cpu"] == answers["reference"] == ""
    assert answers["cuda_decode"] == "pending: CUDA attention backends"


def test_reason_names_the_layers_where_not_all_are_refused() -> None:
    chunked = replace(PLAIN, chunk_tokens=512)

    answers = backends_of(meaning(PLAIN, chunked, PLAIN, chunked))

    assert answers["cpu"] == "the operator has no mask of chunks (layers 1, 3)"
    assert answers["reference"] == answers["cpu"]


@pytest.mark.parametrize("element_type", [ElementType.FLOAT32, ElementType.FLOAT16])
def test_layers_of_every_kind_and_type_are_served_in_host_memory(element_type: ElementType) -> None:
    answers = backends_of(meaning(PLAIN, LATENT, element_type=element_type))

    assert answers["cpu"] == answers["reference"] == ""


def test_call_that_the_operator_has_not_is_refused_by_all() -> None:
    answers = backends_of(meaning(replace(PLAIN, head_size=60, v_head_size=60)))

    assert set(answers.values()) == {
        (
            "the operator has no such call: query: expected a head size divisible by 8, "
            "got head size 60, query [1, 480] (V10)"
        )
    }


def test_model_without_attention_asks_nothing() -> None:
    assert backends_of(meaning(LayerMeaning(LayerKind.MAMBA))) == {}
