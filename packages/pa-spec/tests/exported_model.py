"""An exported model of two layers, built in code: its configuration, its graph, a check of both."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pa_spec import ElementType
from pa_spec.checker import Findings
from pa_spec.checker.exported.check import check_graph, read_export
from pa_spec.checker.exported.reference import Reference
from pa_spec.checker.graph.graph import Graph, GraphNode, GraphTensor, TensorSource
from pa_spec.inference.shape import Extent, SymbolicTensor

HALF, FULL = ElementType.FLOAT16, ElementType.FLOAT32
INT32, INT64 = ElementType.INT32, ElementType.INT64
CACHE: tuple[Extent, ...] = ("num_blocks", "block_size", 2, 32)

CONFIG: dict[str, Any] = {
    "model": {
        "type": "llama",
        "vocab_size": 512,
        "context_length": 1024,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "bos_token_id": 1,
        "decoder": {
            "filename": "model.onnx",
            "head_size": 32,
            "hidden_size": 128,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "session_options": {"provider_options": [{"cuda": {"enable_cuda_graph": "0"}}]},
            "inputs": {
                "input_ids": "input_ids",
                "block_table": "block_table",
                "cumulative_sequence_lengths": "cumulative_sequence_lengths",
                "past_sequence_lengths": "past_sequence_lengths",
                "attention_metadata": "attention_metadata",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
            "state_groups": [{"kind": "paged_kv", "layer_ids": [0, 1]}],
        },
    },
    "search": {"max_length": 1024, "top_k": 50, "top_p": 1.0, "num_beams": 1},
    "engine": {"dynamic_batching": {"block_size": 16, "max_batch_size": 4, "num_blocks": 64}},
}


def configured(changes: Mapping[str, Any] | None = None, without: Sequence[str] = ()) -> Any:
    """Return the configuration with values changed or keys left out, by their dotted places."""
    document = copy.deepcopy(CONFIG)
    for place, value in (changes or {}).items():
        *path, last = place.split(".")
        _at(document, path)[last] = value
    for place in without:
        *path, last = place.split(".")
        del _at(document, path)[last]
    return document


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.setdefault(part, {})
    return document


def tensor(name: str, element_type: ElementType, *shape: Extent) -> GraphTensor:
    """Return an input or output of the graph."""
    return GraphTensor(name, SymbolicTensor(element_type, shape), TensorSource.GRAPH_INPUT)


def named(*tensors: GraphTensor) -> dict[str, GraphTensor]:
    """Return tensors by their names."""
    return {each.name: each for each in tensors}


STEP = named(
    tensor("input_ids", INT64, "num_tokens"),
    tensor("block_table", INT32, "batch_size", "max_num_blocks"),
    tensor("cumulative_sequence_lengths", INT32, "batch_size + 1"),
    tensor("past_sequence_lengths", INT32, "batch_size"),
    tensor("attention_metadata", INT32, 3),
)
PAST = named(
    *(
        tensor(f"past_key_values.{layer}.{part}", HALF, *CACHE)
        for layer in (0, 1)
        for part in ("key", "value")
    )
)
PRESENT = named(
    *(
        tensor(f"present.{layer}.{part}", HALF, *CACHE)
        for layer in (0, 1)
        for part in ("key", "value")
    )
)
LOGITS = named(tensor("logits", HALF, "num_tokens", 512))


def node(
    layer: int, inputs: Mapping[str, GraphTensor], table: str = "block_table", **attributes: Any
) -> GraphNode:
    """Return a layer's attention node over the graph's inputs."""
    rotary = GraphTensor("cos_cache", SymbolicTensor(HALF, (1024, 16)), TensorSource.INITIALIZER)
    query = GraphTensor("qkv", SymbolicTensor(HALF, ("num_tokens", 256)), TensorSource.NODE)
    given: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, **attributes}
    lengths = ("cumulative_sequence_lengths", "past_sequence_lengths")
    return GraphNode(
        place=f"/model/layers.{layer}/attn/PagedAttention",
        op_type="PagedAttention",
        domain="com.microsoft",
        attributes=given,
        inputs=(
            query,
            None,
            None,
            inputs.get(f"past_key_values.{layer}.key"),
            inputs.get(f"past_key_values.{layer}.value"),
            *(inputs.get(name) for name in lengths),
            inputs.get(table),
            rotary,
            rotary,
        ),
        outputs=(f"attn.{layer}", f"present.{layer}.key", f"present.{layer}.value"),
    )


def graph(
    *more: GraphTensor,
    without: Sequence[str] = (),
    outputs: Sequence[GraphTensor] = (),
    nodes: Sequence[GraphNode] | None = None,
) -> Graph:
    """Return the graph with inputs and outputs added, replaced by name, or left out."""
    inputs = {**STEP, **PAST, **named(*more)}
    results = {**LOGITS, **PRESENT, **named(*outputs)}
    for name in without:
        inputs.pop(name, None)
        results.pop(name, None)
    attention = (node(0, inputs), node(1, inputs)) if nodes is None else tuple(nodes)
    return Graph(file="model.onnx", inputs=inputs, outputs=results, attention=attention)


def with_state(found: Graph, *nodes: GraphNode) -> Graph:
    """Return the graph with nodes that keep fixed state."""
    return replace(found, state=nodes)


def found_in(
    document: Any, model: Graph | None = None, reference: Reference | None = None
) -> list[str]:
    """Check a configuration and a graph; return the messages without the file's name."""
    findings = Findings()
    export = read_export(document, findings)
    if export is not None and model is not None:
        check_graph(replace(export, reference=reference), model, frozenset())
    return [str(each).removeprefix("genai_config.json: ") for each in findings]


def ids_in(messages: Sequence[str]) -> list[str]:
    """Return the ids at the ends of messages."""
    return [each.rpartition("(")[2].rstrip(")") for each in messages]
