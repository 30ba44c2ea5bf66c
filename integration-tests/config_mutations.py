"""Mutations of genai_config.json: what each must report was written before it was run."""

from __future__ import annotations

from typing import Any

from export_mutation import (
    all_of,
    at,
    attribute,
    both,
    broken,
    new_input,
    new_state,
    node_input,
    rename,
    stored,
    without,
)
from graph_mutations import F16, F32, I64, INPUTS, OUTPUTS

DECODER = "model.decoder"
GROUPS = f"{DECODER}.state_groups"
ENGINE = "engine.dynamic_batching"
PROVIDERS = f"{DECODER}.session_options.provider_options"
ALL_LAYERS = list(range(30))


def paged(layers: list[Any]) -> dict[str, Any]:
    return {"kind": "paged_kv", "layer_ids": layers}


def with_group(kind: str, layers: list[int]) -> Any:
    return at(GROUPS, [paged(ALL_LAYERS), {"kind": kind, "layer_ids": layers}])


CONV = ("past_key_values.0.conv_state", "present.0.conv_state")

MANIFEST = (
    broken("no groups", "V76", config=at(GROUPS, [])),
    broken("unknown kind", "V76", config=at(GROUPS, [{"kind": "paged", "layer_ids": ALL_LAYERS}])),
    broken("old kind", "V76", config=at(GROUPS, [paged(ALL_LAYERS), {"kind": "fixed"}])),
    broken("no kind", "V76", config=at(GROUPS, [{"layer_ids": ALL_LAYERS}])),
    broken("layer twice", "V77", config=at(GROUPS, [paged([*ALL_LAYERS, 7])])),
    broken("layer twice, one lost", "V77", config=at(GROUPS, [paged([0, *ALL_LAYERS[:-1]])])),
    broken("layer 30", "V77", config=at(GROUPS, [paged([*ALL_LAYERS, 30])])),
    broken("no layers", "V77", config=at(GROUPS, [paged([])])),
    broken("layer as text", "V77", config=at(GROUPS, [paged(["0", *ALL_LAYERS[1:]])])),
    broken("29 layers", "V77", config=at(f"{DECODER}.num_hidden_layers", 29)),
    broken(
        "layer left out", "exported.cache_uncovered", config=at(GROUPS, [paged(ALL_LAYERS[1:])])
    ),
    broken("group twice", "V82", config=at(GROUPS, [paged(ALL_LAYERS), paged(ALL_LAYERS)])),
    broken("two halves", "V82", config=at(GROUPS, [paged(ALL_LAYERS[:9]), paged(ALL_LAYERS[9:])])),
    broken("layers 0", "V82", config=at(f"{DECODER}.num_hidden_layers", 0)),
    broken("template of one name", "V78", config=at(f"{INPUTS}.past_key_names", "past.key")),
    broken("empty template", "V78", config=at(f"{OUTPUTS}.present_value_names", "")),
    broken(
        "templates alike", "V79", config=at(f"{INPUTS}.past_value_names", "past_key_values.%d.key")
    ),
    broken("template renamed", "V80", config=at(f"{INPUTS}.past_key_names", "past.%d.k")),
    broken("output template renamed", "V80", config=at(f"{OUTPUTS}.present_key_names", "now.%d.k")),
    broken("state that is not there", "V80", config=with_group("fixed_conv", [0])),
    broken(
        "fixed batch of state",
        "V84",
        new_state(*CONV, 4, 576, 3),
        with_group("fixed_conv", [0]),
    ),
    broken(
        "fixed state without an engine",
        "V83",
        new_state(*CONV, "batch_size", 576, 3),
        both(
            with_group("fixed_conv", [0]), at("engine", {"static_batching": {"max_batch_size": 4}})
        ),
    ),
    broken("groups by default", "", config=without(GROUPS)),
    broken("names by default", "", config=without(INPUTS, OUTPUTS)),
    broken("layers in another order", "", config=at(GROUPS, [paged(ALL_LAYERS[::-1])])),
    broken(
        "fixed state",
        "",
        new_state(*CONV, "batch_size", 576, 3),
        with_group("fixed_conv", [0]),
    ),
)

DECODER_KEYS = (
    broken("wider heads", "V81", config=at(f"{DECODER}.head_size", 128)),
    broken("more KV heads", "V81", config=at(f"{DECODER}.num_key_value_heads", 9)),
    broken("more heads", "exported.num_heads", config=at(f"{DECODER}.num_attention_heads", 12)),
    broken("head size as text", "exported.value", config=at(f"{DECODER}.head_size", "64")),
    broken("head size as truth", "exported.value", config=at(f"{DECODER}.head_size", True)),
    broken("enormous layers", "exported.value", config=at(f"{DECODER}.num_hidden_layers", 2**70)),
    broken("file outside", "exported.path", config=at(f"{DECODER}.filename", "../model.onnx")),
    broken("absolute file", "exported.path", config=at(f"{DECODER}.filename", "/model.onnx")),
    broken("no such file", "file.unreadable", config=at(f"{DECODER}.filename", "other.onnx")),
    broken("no file", "exported.missing_key", config=without(f"{DECODER}.filename")),
    broken("no decoder", "exported.missing_key", config=without(DECODER)),
    broken("inputs no object", "exported.value", config=at(INPUTS, ["input_ids"])),
    broken("name no text", "exported.value", config=at(f"{INPUTS}.attention_metadata", 3)),
    broken("slip", "exported.key_slip", config=at(f"{DECODER}.slidding_window", {})),
    broken("name of nothing", "V80", config=at(f"{INPUTS}.block_table", "blocks_of_rows")),
    broken("newer key", "", config=at(f"{DECODER}.layout_of_weights", "tiled")),
)

ENGINE_KEYS = (
    broken("no slots", "V72", config=at(f"{ENGINE}.block_size", 0)),
    broken("batch as text", "V72", config=at(f"{ENGINE}.max_batch_size", "100")),
    broken("enormous pool", "V72", config=at(f"{ENGINE}.num_blocks", 2**40)),
    broken("half a token", "V72", config=at(f"{ENGINE}.max_scheduled_tokens", 0.5)),
    broken("blocks of 100", "V29", config=at(f"{ENGINE}.block_size", 100)),
    broken("all memory and more", "V73", config=at(f"{ENGINE}.gpu_utilization_factor", 1.5)),
    broken("unknown key", "V74", config=at(f"{ENGINE}.block_sizes", 256)),
    broken("both paths", "V75", config=at("engine.static_batching", {"max_batch_size": 4})),
    broken("no engine", "exported.not_dynamic", config=without("engine")),
    broken(
        "static path",
        "exported.not_dynamic",
        config=at("engine", {"static_batching": {"max_batch_size": 4}}),
    ),
    broken("blocks of 16", "", config=at(f"{ENGINE}.block_size", 16)),
    broken(
        "pool of 64 blocks",
        "",
        config=both(at(f"{ENGINE}.num_blocks", 64), without(f"{ENGINE}.gpu_utilization_factor")),
    ),
    broken("prefix reuse", "", config=at(f"{ENGINE}.prefix_caching", True)),
)

SEARCH_KEYS = (
    broken("four beams", "V87", config=at("search.num_beams", 4)),
    broken("two sequences", "V87", config=at("search.batch_size", 2)),
    broken("top_p 1.5", "V87", config=at("search.top_p", 1.5)),
    broken("top_k -1", "V87", config=at("search.top_k", -1)),
    broken("temperature as text", "engine.wrong_value", config=at("search.temperature", "hot")),
    broken("unknown search key", "engine.unknown_search_key", config=at("search.top_q", 1)),
    broken("sessions too long", "exported.max_length", config=at("search.max_length", 16384)),
    broken("greedy", "", config=both(at("search.top_k", 1), at("search.temperature", 0))),
    broken("chunks", "", config=at("search.chunk_size", 512)),
)

MODEL_KEYS = (
    broken("end outside", "exported.eos_id", config=at("model.eos_token_id", 49152)),
    broken("one end outside", "exported.eos_id", config=at("model.eos_token_id", [2, -1])),
    broken("end as text", "exported.value", config=at("model.eos_token_id", "</s>")),
    broken("no end", "exported.no_eos", config=without("model.eos_token_id", "model.pad_token_id")),
    broken("no positions", "exported.value", config=at("model.context_length", 0)),
    broken("more positions", "exported.rope_rows", config=at("model.context_length", 16384)),
    broken("wider vocabulary", "exported.logits_width", config=at("model.vocab_size", 49153)),
    broken("two ends", "", config=at("model.eos_token_id", [0, 2])),
    broken("end by padding", "", config=without("model.eos_token_id")),
)

SESSION_KEYS = (
    broken("other provider", "V97", config=at(PROVIDERS, [{"dml": {}}])),
    broken(
        "switch as number",
        "exported.value",
        config=at(PROVIDERS, [{"cuda": {"enable_cuda_graph": 1}}]),
    ),
    broken(
        "capture with positions",
        "exported.capture_blocked graph.position_ids",
        new_input("position_ids", I64, "num_tokens"),
        at(PROVIDERS, [{"cuda": {"enable_cuda_graph": "1"}}]),
    ),
    broken(
        "capture with fixed state",
        "exported.capture_blocked",
        new_state(*CONV, "batch_size", 576, 3),
        both(with_group("fixed_conv", [0]), at(PROVIDERS, [{"cuda": {"enable_cuda_graph": "1"}}])),
    ),
    broken("capture", "", config=at(PROVIDERS, [{"cuda": {"enable_cuda_graph": "1"}}])),
    broken("no provider", "", config=at(PROVIDERS, [])),
    broken(
        "two providers",
        "",
        config=at(PROVIDERS, [{"cuda": {"enable_cuda_graph": "0"}}, {"dml": {}}]),
    ),
)

COMPARED = (
    broken("other scale", "exported.scale_differs", attribute("scale", 0.25)),
    broken("window", "exported.window_differs", attribute("local_window_size", 128)),
    broken("softcap", "exported.softcap_differs", attribute("softcap", 30.0)),
    broken("sink", "exported.sink_differs", stored("sink", F16, 9, index=11)),
    broken(
        "other end", "exported.eos_missing exported.eos_added", config=at("model.eos_token_id", 7)
    ),
    broken("end added", "exported.eos_added", config=at("model.eos_token_id", [2, 7])),
    broken("as exported", ""),
    broken(
        "fewer positions",
        "",
        config=both(at("model.context_length", 4096), at("search.max_length", 0)),
    ),
    broken("window as long as the context", "", attribute("local_window_size", 8192)),
)

RING = "model.decoder.sliding_window"

RINGS = (
    broken("no chunk", "V85", config=without("search.chunk_size")),
    broken("chunk 0", "V85", config=at("search.chunk_size", 0)),
    broken("window 0", "V85", config=at(f"{RING}.window_size", 0)),
    broken("no window", "V85", config=without(f"{RING}.window_size")),
    broken("ring outside", "V85", config=at(f"{RING}.layers", [1, 2, 3])),
    broken("only rings", "V85", config=at(f"{RING}.layers", [0, 1, 2])),
    broken("no ring settings", "V85", config=without(RING)),
    broken("other window", "exported.ring_window", config=at(f"{RING}.window_size", 32)),
    broken("layer without its ring", "exported.ring_table", config=at(f"{RING}.layers", [1])),
    broken("prefix reuse", "exported.prefix_caching", config=at(f"{ENGINE}.prefix_caching", True)),
    broken("window table renamed", "V80", rename("block_table_windowed", "block_table_window")),
    broken(
        "window table under a name of its own",
        "exported.input_unbound",
        rename("block_table_windowed", "pages"),
    ),
    broken("prefix reuse by default", "", config=without(f"{ENGINE}.prefix_caching")),
    broken("smaller chunks", "", config=at("search.chunk_size", 16)),
    broken(
        "window table renamed in both",
        "",
        rename("block_table_windowed", "window_pages"),
        at(f"{INPUTS}.block_table_windowed", "window_pages"),
    ),
)

WINDOWS = (
    broken(
        "narrower window of a ring", "exported.ring_window", attribute("local_window_size", 63, 1)
    ),
    broken(
        "tables exchanged",
        "exported.ring_table",
        config=both(
            at(f"{INPUTS}.block_table", "block_table_windowed"),
            at(f"{INPUTS}.block_table_windowed", "block_table"),
        ),
    ),
    broken(
        "ring and node of another window",
        "exported.window_differs",
        all_of(attribute("local_window_size", 63, 1), attribute("local_window_size", 63, 2)),
        at(f"{DECODER}.sliding_window.window_size", 63),
    ),
    broken("as exported", ""),
)

QUANTIZED = (
    broken("no scale", "V46", node_input(14, "")),
    broken("scale of eight", "V47", stored("scales", F32, 8, index=14)),
    broken("half of a scale", "V98", stored("scales", F16, 1, index=14)),
    broken("no scheme", "V44", all_of(attribute("k_quant_type", "NONE"), node_input(14, ""))),
    broken("scheme of a newer revision", "V8", attribute("v_quant_type", "PER_TOKEN")),
    broken("other cache type", "V49", attribute("k_cache_dtype", "float8e4m3fn")),
    broken("as exported", ""),
    broken("its own cache type", "", attribute("k_cache_dtype", "int8")),
)

STATES = (
    broken(
        "recurrent state without a group",
        "exported.cache_uncovered graph.position_ids",
        config=at(GROUPS, [paged([3]), {"kind": "fixed_conv", "layer_ids": [0, 1, 2]}]),
    ),
    broken(
        "recurrent template renamed",
        "V80 graph.position_ids",
        config=at(f"{INPUTS}.past_recurrent_names", "state.%d"),
    ),
    broken(
        "recurrent template of one name",
        "V78 graph.position_ids",
        config=at(f"{INPUTS}.past_recurrent_names", "state"),
    ),
    broken("as exported", "graph.position_ids"),
)
