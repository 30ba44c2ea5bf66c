"""What a folder's weights are to a model: its tensors, quantized ones, or nothing we know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.config.family import families, nested_models
from pa_spec.checker.huggingface.config.resolve import resolve_config
from pa_spec.checker.huggingface.weights.expected_tensor import (
    ExpectedTensor,
    ModelSizes,
    tensor_groups,
)
from pa_spec.checker.huggingface.weights.stored_weights import StoredWeights
from pa_spec.checker.huggingface.weights.tensor_check import TensorCheck, check_types
from pa_spec.checker.huggingface.weights.tensor_layout import (
    TensorLayout,
    tensor_layouts,
    tensor_prefixes,
)
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.text import printable, shortened, shown
from pa_spec.element_type import ElementType
from pa_spec.errors import InputUnusable

QUANTIZATION = "quantization_config"
EXTRA_LAYERS = "num_nextn_predict_layers"
MAX_EXTRA_LAYERS = 16

_SPELLINGS = {
    ElementType.FLOAT64: "F64",
    ElementType.FLOAT32: "F32",
    ElementType.FLOAT16: "F16",
    ElementType.BFLOAT16: "BF16",
}


def check_weights(
    config: Mapping[str, Any], meaning: ModelMeaning, weights: StoredWeights, findings: Findings
) -> None:
    """Compare the stored tensors with those that the configuration asks for.

    config: the whole config.json.
    """
    inner = decoder_config(config, meaning)
    method = _quantization(config, inner)
    if method:
        place = Place("config.json", QUANTIZATION)
        findings.add("weights.quantized", place, QUANTIZATION, method)
    else:
        stated = meaning.element_type
        check_types(weights, _SPELLINGS.get(stated, "") if stated else "", findings)
    layout = tensor_layouts().get(meaning.family)
    if layout is None:
        family = printable(shortened(meaning.family))
        findings.add("weights.layout_unknown", Place("config.json"), "model_type", family)
        return
    TensorCheck(layout, sizes_of(layout, inner, meaning), weights, findings).run(
        is_tied=meaning.has_tied_embeddings,
        is_quantized=bool(method),
        extra_layers=_extra_layers(inner),
    )


def expected_tensors(config: Mapping[str, Any]) -> Iterator[ExpectedTensor]:
    """Yield the tensors that a checkpoint of this configuration holds, under its first prefix.

    config: the whole config.json. Raises InputUnusable for one that does not resolve, and for a
    family whose tensors are not known.
    """
    findings = Findings()
    meaning = resolve_config(config, findings, Place("config.json"))
    if meaning is None:
        raise InputUnusable("config.json", "; ".join(map(str, findings)))
    layout = tensor_layouts().get(meaning.family)
    if layout is None:
        raise InputUnusable(meaning.family, "has no known tensors", ", ".join(tensor_layouts()))
    sizes = sizes_of(layout, decoder_config(config, meaning), meaning)
    for group in tensor_groups(layout, sizes, tensor_prefixes(layout)[0], ()):
        for layer in group.layers:
            for tensor in group.of_layer(layer):
                is_free = tensor.role == "head" and meaning.has_tied_embeddings
                yield replace(tensor, is_needed=False) if is_free else tensor


def sizes_of(layout: TensorLayout, config: Mapping[str, Any], meaning: ModelMeaning) -> ModelSizes:
    """Return what expressions of a layout may name; config: the decoder's own."""
    defaults = families()[meaning.family].defaults if meaning.family in families() else {}
    return ModelSizes(layout, meaning, config, defaults)


def decoder_config(config: Mapping[str, Any], meaning: ModelMeaning) -> Mapping[str, Any]:
    """Return the part of a configuration that describes the decoder."""
    nested = nested_models().get(meaning.model_type)
    if nested is None:
        return config
    inner = config.get(nested.text_key)
    if isinstance(inner, dict):
        return inner
    return config if nested.may_be_flat else nested.defaults


def _quantization(*configs: Mapping[str, Any]) -> str:
    """Return the method that the weights are quantized by, "" = none."""
    for config in configs:
        written = config.get(QUANTIZATION)
        if isinstance(written, dict) and written:
            return shown(written.get("quant_method"))
    return ""


def _extra_layers(config: Mapping[str, Any]) -> int:
    """Return how many layers behind the last one only predict further tokens."""
    extra = config.get(EXTRA_LAYERS)
    return extra if type(extra) is int and 0 <= extra <= MAX_EXTRA_LAYERS else 0
