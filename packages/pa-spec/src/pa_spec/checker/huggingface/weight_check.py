"""What a folder's weights are to a model: its tensors, quantized ones, or nothing we know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.expected_tensor import ModelSizes
from pa_spec.checker.huggingface.family import families, nested_models
from pa_spec.checker.huggingface.stored_weights import StoredWeights
from pa_spec.checker.huggingface.tensor_check import TensorCheck, check_types
from pa_spec.checker.huggingface.tensor_layout import tensor_layouts
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.checker.text import printable, shortened, shown
from pa_spec.element_type import ElementType

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
    family_defaults = families()[meaning.family].defaults if meaning.family in families() else {}
    sizes = ModelSizes(layout, meaning, inner, family_defaults)
    TensorCheck(layout, sizes, weights, findings).run(
        is_tied=meaning.has_tied_embeddings,
        is_quantized=bool(method),
        extra_layers=_extra_layers(inner),
    )


def decoder_config(config: Mapping[str, Any], meaning: ModelMeaning) -> Mapping[str, Any]:
    """Return the part of a configuration that describes the decoder."""
    nested = nested_models().get(meaning.model_type)
    if nested is None:
        return config
    inner = config.get(nested.text_key)
    return inner if isinstance(inner, dict) else nested.defaults


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
