"""Mutations of keys: slips, values of another type, and what a missing key leads to."""

from __future__ import annotations

from typing import Any

from config_mutations import ALL_LAYERS, DECODER, ENGINE, GROUPS
from export_mutation import ChangeConfig, at, both, broken, rename
from graph_mutations import INPUTS, OUTPUTS
from pairing_mutations import OWN_NAMES, own_names, templates

_FIXED = {"kind": "fixed_conv", "layer_ids": ALL_LAYERS}


def _slip(place: str, slip: str) -> ChangeConfig:
    """Call a key otherwise."""

    def change(config: dict[str, Any]) -> None:
        *path, last = place.split(".")
        found = config
        for part in path:
            found = found[part]
        found[slip] = found.pop(last)

    return change


SLIPS = (
    broken(
        "one template twice", "V79", config=at(f"{OUTPUTS}.present_key_names", "present.%d.value")
    ),
    broken(
        "slip beside the key", "exported.key_slip", config=at(f"{DECODER}.num_atention_heads", 9)
    ),
    broken("no engine object", "V74", config=at("engine", None)),
    broken("engine as number", "V74", config=at("engine", 5)),
    broken("no window, no layers", "", config=at(f"{DECODER}.sliding_window", {"window_size": 0})),
    broken(
        "no window, but layers",
        "V85",
        config=at(f"{DECODER}.sliding_window", {"window_size": 0, "layers": [1]}),
    ),
    broken("engine misspelt", "exported.not_dynamic", config=_slip("engine", "engin")),
    broken("search misspelt", "exported.key_slip", config=_slip("search", "serach")),
    broken("model misspelt", "exported.missing_key", config=_slip("model", "modle")),
    broken("table without a name", "exported.value", config=at(f"{INPUTS}.block_table", "")),
    broken(
        "own table without a name",
        "exported.value",
        rename("block_table", "pages"),
        at(f"{INPUTS}.block_table", ""),
    ),
    broken("only group of another kind", "V82", config=at(f"{GROUPS}", [_FIXED])),
    broken(
        "head size misspelt",
        "exported.missing_key",
        config=_slip(f"{DECODER}.head_size", "head_dim"),
    ),
    broken(
        "template misspelt",
        "exported.key_slip",
        config=_slip(f"{INPUTS}.past_key_names", "past_keys_names"),
    ),
    broken(
        "needed template misspelt",
        "V80",
        own_names,
        both(templates(*OWN_NAMES), _slip(f"{INPUTS}.past_key_names", "past_keys_names")),
    ),
    broken("hidden size as text", "exported.value", config=at(f"{DECODER}.hidden_size", "x")),
    broken("layer types as text", "exported.value", config=at(f"{DECODER}.layer_types", "x")),
    broken("layer types of numbers", "exported.value", config=at(f"{DECODER}.layer_types", [1])),
    broken("window as list", "exported.value", config=at(f"{DECODER}.sliding_window", [])),
    broken("columns as text", "exported.value", config=at(f"{DECODER}.conv_cache_size", "x")),
    broken(
        "width of a window as text",
        "exported.value",
        config=at(f"{DECODER}.sliding_window", {"window_size": "x"}),
    ),
    broken("options as list", "exported.value", config=at(f"{DECODER}.run_options", [])),
    broken("type as number", "exported.value", config=at("model.type", 5)),
    broken("vision as number", "exported.value", config=at("model.vision", 5)),
    broken("begin as text", "exported.value", config=at("model.bos_token_id", "x")),
    broken("padding as text", "exported.value", config=at("model.pad_token_id", "x")),
    broken("begin outside", "exported.token_id", config=at("model.bos_token_id", 10**6)),
    broken("padding outside", "exported.token_id", config=at("model.pad_token_id", 10**6)),
    broken("pipeline as text", "exported.value", config=at(f"{DECODER}.pipeline", "x")),
    broken("pipeline of nothing", "exported.value", config=at(f"{DECODER}.pipeline", [])),
    broken(
        "stage outside",
        "exported.path",
        config=at(f"{DECODER}.pipeline", [{"stage": {"filename": "../x.onnx"}}]),
    ),
    broken("no padding", "", config=at("model.pad_token_id", -1)),
    broken("no beginning", "", config=at("model.bos_token_id", None)),
    broken("layer types", "", config=at(f"{DECODER}.layer_types", ["full_attention"] * 30)),
    broken("batch limit", "", config=at(f"{ENGINE}.max_batch_size", 4)),
    broken(
        "names of padded steps",
        "",
        config=at(f"{INPUTS}.past_sequence_length", "past_sequence_length"),
    ),
)
