"""Mutations of an exported graph: what each must report was written before it was run."""

from __future__ import annotations

from export_mutation import (
    all_of,
    at,
    attention,
    attribute,
    axes,
    both,
    broken,
    drop_edge,
    each_cache,
    new_input,
    node_input,
    rename,
    shaped,
    stored,
    typed,
    without,
)
from onnx import ModelProto, NodeProto, TensorProto, helper

F16, F32, I32, I64 = (
    TensorProto.FLOAT16,
    TensorProto.FLOAT,
    TensorProto.INT32,
    TensorProto.INT64,
)
INPUTS = "model.decoder.inputs"
OUTPUTS = "model.decoder.outputs"
KEYS = ("past_key_values.3.key", "present.3.key")
VALUES = ("past_key_values.3.value", "present.3.value")
PAIR = (*KEYS, *VALUES)
ROWS: tuple[int | str, ...] = ("num_blocks", "block_size", 3, 64)


def _no_metadata(model: ModelProto) -> None:
    for node in (each for each in model.graph.node if each.op_type == "PagedAttention"):
        del node.input[16:]
        del node.input[10:]


def _constant_metadata(model: ModelProto) -> None:
    drop_edge("attention_metadata")(model)
    model.graph.initializer.append(helper.make_tensor("attention_metadata", I32, [3], [1, 1, 1]))


def _embeddings(model: ModelProto) -> None:
    gather = next(each for each in model.graph.node if "input_ids" in each.input)
    rename(gather.output[0], "inputs_embeds")(model)
    model.graph.node.remove(next(e for e in model.graph.node if "input_ids" in e.input))
    drop_edge("input_ids")(model)
    new_input("inputs_embeds", F16, "num_tokens", 576)(model)


def _hidden_states(model: ModelProto) -> None:
    head = next(each for each in model.graph.node if "logits" in each.output)
    rename(head.input[0], "hidden_states")(model)
    model.graph.node.remove(next(e for e in model.graph.node if "logits" in e.output))
    drop_edge("logits")(model)
    output = helper.make_tensor_value_info("hidden_states", F16, ["num_tokens", 576])
    model.graph.output.append(output)


def _identity_before_cache(model: ModelProto) -> None:
    node = helper.make_node("Identity", ["past_key_values.3.key"], ["copied_key"])
    model.graph.node.insert(0, node)
    node_input(3, "copied_key")(model)


def _crossed_outputs(model: ModelProto) -> None:
    one, other = attention(model, 3), attention(model, 4)
    one.output[1], other.output[1] = other.output[1], one.output[1]


def _five_outputs(model: ModelProto) -> None:
    attention(model).output.extend(["further", "more"])


def _two_outputs(model: ModelProto) -> None:
    del attention(model).output[2:]
    drop_edge("present.3.value")(model)


def _other_domain(model: ModelProto) -> None:
    attention(model).domain = "com.other"
    model.opset_import.append(helper.make_opsetid("com.other", 1))


def _no_opset(model: ModelProto) -> None:
    for each in [each for each in model.opset_import if each.domain == "com.microsoft"]:
        model.opset_import.remove(each)


def _named_symbols(model: ModelProto) -> None:
    for cache in each_cache(model):
        dims = cache.type.tensor_type.shape.dim
        dims[0].dim_param, dims[1].dim_param = "blocks_of_pool", "slots"


def _query_as_key(model: ModelProto) -> None:
    node_input(1, attention(model).input[0])(model)


def _reversed(model: ModelProto) -> None:
    nodes: list[NodeProto] = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


GRAPH_INPUTS = (
    broken("cache input dropped", "graph.undefined_name", drop_edge("past_key_values.3.key")),
    broken("block_table renamed", "V80", rename("block_table", "pages")),
    broken("cache renamed", "V80", rename("past_key_values.3.key", "cache.3.key")),
    broken("input nobody feeds", "exported.input_unbound", new_input("beams", I32, "batch_size")),
    broken(
        "attention_mask",
        "exported.input_unbound",
        new_input("attention_mask", I64, "batch_size", "total"),
        at(f"{INPUTS}.attention_mask", "attention_mask"),
    ),
    broken(
        "padded ids",
        "exported.tensor",
        shaped("input_ids", dims=("batch_size", "sequence_length")),
    ),
    broken("input_ids of int32", "exported.tensor", typed("input_ids", kind=I32)),
    broken(
        "positions of int32",
        "V96 graph.position_ids",
        new_input("position_ids", I32, "num_tokens"),
        at(f"{INPUTS}.position_ids", "position_ids"),
    ),
    broken(
        "positions on two axes",
        "V96 graph.position_ids",
        new_input("position_ids", I64, 2, "num_tokens"),
    ),
    broken("positions", "graph.position_ids", new_input("position_ids", I64, "num_tokens")),
    broken(
        "positions on three axes",
        "graph.position_ids",
        new_input("position_ids", I64, 3, "num_tokens"),
    ),
    broken("constant metadata", "graph.metadata_not_input", _constant_metadata),
    broken("metadata of four", "V51", shaped("attention_metadata", dims=(4,))),
    broken("metadata of two", "exported.tensor", shaped("attention_metadata", dims=(2,))),
    broken(
        "no metadata", "graph.no_metadata", all_of(_no_metadata, drop_edge("attention_metadata"))
    ),
    broken(
        "embeddings instead of ids",
        "V97",
        _embeddings,
        both(without(f"{INPUTS}.input_ids"), at(f"{INPUTS}.inputs_embeds", "inputs_embeds")),
    ),
    broken(
        "names that both agree on",
        "",
        all_of(rename("block_table", "pages"), rename("input_ids", "tokens")),
        both(at(f"{INPUTS}.block_table", "pages"), at(f"{INPUTS}.input_ids", "tokens")),
    ),
)


def _nothing_declared(model: ModelProto) -> None:
    del model.graph.value_info[:]


TYPES = (
    broken("no types declared between nodes", "", _nothing_declared),
    broken("past lengths of int64", "V98", typed("past_sequence_lengths", kind=I64)),
    broken("block_table of int64", "V98", typed("block_table", kind=I64)),
    broken("float32 key cache", "V45", typed(*KEYS, kind=F32)),
    broken("uint8 caches of a layer", "V98", typed(*PAIR, kind=TensorProto.UINT8)),
    broken("int8 caches without scales", "V44", typed(*PAIR, kind=TensorProto.INT8)),
    broken("attention_metadata of int64", "V98", typed("attention_metadata", kind=I64)),
)

CACHES = (
    broken("heads before slots", "V29", shaped(*KEYS, dims=("num_blocks", 3, "block_size", 64))),
    broken("heads behind channels", "V30", shaped(*KEYS, dims=("num_blocks", "block_size", 64, 3))),
    broken(
        "wider cache output",
        "V80",
        shaped("present.3.value", dims=("num_blocks", "block_size", 3, 128)),
    ),
    broken("narrow value cache", "V31", shaped(*VALUES, dims=("num_blocks", "block_size", 3, 32))),
    broken("flat key cache", "V28", shaped(*KEYS, dims=("num_blocks", "block_size", 192))),
    broken("blocks of 128 in all caches", "V81", axes(1, 128)),
    broken("blocks of 128 in one layer", "V81", shaped(*PAIR, dims=("num_blocks", 128, 3, 64))),
    broken("blocks of 24", "V29", axes(1, 24)),
    broken("cache computed in the graph", "V54", _identity_before_cache),
    broken("blocks of 256", "", axes(1, 256)),
    broken("64 blocks", "", axes(0, 64)),
    broken("other symbols", "", _named_symbols),
)

TABLES = (
    broken("flat block_table", "V34", shaped("block_table", dims=("batch_size",))),
    broken(
        "past lengths of rank 2", "V33", shaped("past_sequence_lengths", dims=("batch_size", 1))
    ),
    broken(
        "boundaries of rank 2",
        "V32",
        shaped("cumulative_sequence_lengths", dims=("batch_size + 1", 1)),
    ),
    broken("wide block_table", "", shaped("block_table", dims=("batch_size", 64))),
)

ATTRIBUTES = (
    broken("12 heads", "V15", attribute("num_heads", 12)),
    broken("4 KV heads", "V2", attribute("kv_num_heads", 4)),
    broken("no num_heads", "V1", attribute("num_heads", None)),
    broken("no heads", "V1", attribute("num_heads", 0)),
    broken("heads as a float", "graph.attribute_type", attribute("num_heads", 9.0)),
    broken("window 0", "V99", attribute("local_window_size", 0)),
    broken("negative softcap", "V100", attribute("softcap", -1.0)),
    broken("scale NaN", "V100", attribute("scale", float("nan"))),
    broken("do_rotary 2", "V101", attribute("do_rotary", 2)),
    broken("unknown attribute", "graph.unknown_attribute", attribute("window", 4)),
    broken("unknown layout", "V5", attribute("kv_cache_layout", "PAGED")),
    broken("unknown scheme", "V8", attribute("k_quant_type", "PER_BLOCK")),
    broken("scheme without scale", "V45", attribute("k_quant_type", "PER_TENSOR")),
    broken("odd rotary_offset", "V7", attribute("rotary_offset", 4)),
    broken("rotary_offset beyond the head", "V42", attribute("rotary_offset", 8)),
    broken("narrow values", "V20", attribute("v_head_size", 32)),
    broken("epsilon 0", "V4", attribute("qk_norm_epsilon", 0.0)),
    broken("wrong cache type", "V49", attribute("k_cache_dtype", "int8")),
    broken("reserved cache type", "V50", attribute("k_cache_dtype", "int4")),
    broken("no scale", "", attribute("scale", None)),
    broken(
        "softcap and window",
        "",
        all_of(attribute("softcap", 30.0), attribute("local_window_size", 8)),
    ),
)

NODE_INPUTS = (
    broken("no sin_cache", "V39", node_input(9, "")),
    broken("no rotary tables", "V41", all_of(node_input(8, ""), node_input(9, ""))),
    broken("scale without scheme", "V43", stored("k_scale", F32, 1, index=14)),
    broken("one norm", "V37", stored("q_norm", F16, 64, index=12)),
    broken("sink of eight heads", "V36", stored("sink", F16, 8, index=11)),
    broken("key without value", "V11", _query_as_key),
    broken("no value cache", "V27", node_input(4, "")),
    broken("other domain", "graph.wrong_domain", _other_domain),
    broken("no opset", "graph.opset", _no_opset),
    broken("nodes backwards", "graph.not_sorted", _reversed),
    broken("sink", "", stored("sink", F16, 9, index=11)),
    broken(
        "norms",
        "",
        all_of(stored("q_norm", F16, 64, index=12), stored("k_norm", F16, 64, index=13)),
    ),
)

OUTPUTS_OF_GRAPH = (
    broken("cache output dropped", "V54", drop_edge("present.3.key")),
    broken("crossed cache outputs", "V54", _crossed_outputs),
    broken("two outputs", "V55", _two_outputs),
    broken("five outputs", "V55", _five_outputs),
    broken("float32 cache output", "V80", typed("present.3.value", kind=F32)),
    broken("logits renamed", "V80", rename("logits", "scores")),
    broken("hidden states instead of logits", "V97", _hidden_states),
    broken(
        "logits of another width",
        "graph.shape_contradicts",
        shaped("logits", dims=("num_tokens", 49151)),
    ),
    broken("logits for each row", "", shaped("logits", dims=("batch_size", 49152))),
    broken(
        "logits renamed in both", "", rename("logits", "scores"), at(f"{OUTPUTS}.logits", "scores")
    ),
)
