"""ONNX graphs with PagedAttention nodes, built in code as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper
from pa_spec.checker.finding import Finding, Findings
from pa_spec.checker.graph.node import check_nodes
from pa_spec.checker.graph.reader import read_graph
from pa_spec.contract import operator_inputs

HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, VOCAB = 4, 2, 16, 64, 100
PACKED = (HEADS + 2 * KV_HEADS) * HEAD_SIZE
CACHE = ("num_blocks", "block_size", KV_HEADS, HEAD_SIZE)
HALF, INT32, FLOAT, INT8 = (
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.FLOAT,
    TensorProto.INT8,
)

Shape = tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a node: its name in the graph, ONNX element type, and shape."""

    name: str
    element: int
    shape: Shape


def packed_inputs() -> dict[str, Input]:
    """Return the inputs of a packed SEPARATE node with rotary tables and metadata."""
    return {
        "query": Input("query", HALF, ("num_tokens", PACKED)),
        "key_cache": Input("past_key_values.0.key", HALF, CACHE),
        "value_cache": Input("past_key_values.0.value", HALF, CACHE),
        "cumulative_sequence_length": Input("cumulative", INT32, ("batch_size + 1",)),
        "past_seqlens": Input("past", INT32, ("batch_size",)),
        "block_table": Input("block_table", INT32, ("batch_size", "max_num_blocks")),
        "cos_cache": Input("cos_cache", HALF, (128, HEAD_SIZE // 2)),
        "sin_cache": Input("sin_cache", HALF, (128, HEAD_SIZE // 2)),
        "attention_metadata": Input("attention_metadata", INT32, (3,)),
    }


def separate_inputs() -> dict[str, Input]:
    """Return the inputs of a SEPARATE node with query, key and value apart."""
    return packed_inputs() | {
        "query": Input("query", HALF, ("num_tokens", HEADS * HEAD_SIZE)),
        "key": Input("key", HALF, ("num_tokens", KV_HEADS * HEAD_SIZE)),
        "value": Input("value", HALF, ("num_tokens", KV_HEADS * HEAD_SIZE)),
    }


def latent_inputs() -> dict[str, Input]:
    """Return the inputs of a LATENT node: latent rows of 48 channels, 32 of them values."""
    found = packed_inputs() | {
        "query": Input("query", HALF, ("num_tokens", HEADS * 48)),
        "key": Input("key", HALF, ("num_tokens", 48)),
        "key_cache": Input("past_key_values.0.key", HALF, ("num_blocks", "block_size", 1, 48)),
    }
    del found["value_cache"]
    return found


HEADS_ONLY: Mapping[str, Any] = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1}
LATENT: Mapping[str, Any] = {
    "num_heads": HEADS,
    "kv_num_heads": 1,
    "kv_cache_layout": "LATENT",
    "v_head_size": 32,
    "scale": 0.25,
    "do_rotary": 1,
    "rotary_offset": 32,
}


@dataclass(slots=True)
class Node:
    """One PagedAttention node, whose inputs all come from outside; change what is wrong."""

    inputs: dict[str, Input] = field(default_factory=packed_inputs)
    attributes: dict[str, Any] = field(default_factory=lambda: dict(HEADS_ONLY))
    outputs: Sequence[str] = ("attention", "present.0.key", "present.0.value")
    declared: dict[str, tuple[int, Shape]] = field(default_factory=dict)
    extra_inputs: Sequence[str] = ()

    def proto(self) -> NodeProto:
        """Return the node, with empty names where inputs are absent."""
        names = [
            self.inputs[each.name].name if each.name in self.inputs else ""
            for each in operator_inputs()
        ]
        while names and not names[-1]:
            names.pop()
        return helper.make_node(
            "PagedAttention",
            [*names, *self.extra_inputs],
            list(self.outputs),
            name="attn",
            domain="com.microsoft",
            **self.attributes,
        )

    def model(self) -> ModelProto:
        """Return a model of this node alone."""
        fed = {each.name: each for each in self.inputs.values()}
        values = [helper.make_tensor_value_info(i.name, i.element, i.shape) for i in fed.values()]
        values += [helper.make_tensor_value_info(n, HALF, None) for n in self.extra_inputs if n]
        results = []
        for name in dict.fromkeys(filter(None, self.outputs)):
            element, shape = self.declared.get(name, (0, None))
            results.append(
                helper.make_tensor_value_info(name, element, shape)
                if element
                else helper.make_empty_tensor_value_info(name)
            )
        return model_of(helper.make_graph([self.proto()], "node", values, results))


def model_of(graph: GraphProto) -> ModelProto:
    """Return a model with the imports that exporters write."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def decoder(layers: int = 2) -> ModelProto:
    """Return a decoder as the model builder writes one, with small weights inside the file."""
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["x0"], name="/embed"),
        helper.make_node(
            "SimplifiedLayerNormalization", ["x0", "norm"], ["n0"], name="/norm", epsilon=1e-5
        ),
    ]
    fed = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["num_tokens"]),
        *(helper.make_tensor_value_info(i.name, i.element, i.shape) for i in _tables()),
    ]
    results = [helper.make_tensor_value_info("logits", HALF, ["num_tokens", VOCAB])]
    declared = [_value("x0", HIDDEN), _value("n0", HIDDEN)]
    for layer in range(layers):
        nodes += _layer(layer)
        declared += [_value(f"qkv{layer}", PACKED), _value(f"a{layer}", HIDDEN)]
        declared += [_value(f"o{layer}", HIDDEN), _value(f"n{layer + 1}", HIDDEN)]
        declared += [_value(f"x{layer + 1}", HIDDEN)]
        for side in ("key", "value"):
            fed.append(_cache(f"past_key_values.{layer}.{side}"))
            results.append(_cache(f"present.{layer}.{side}"))
    nodes.append(helper.make_node("MatMul", [f"n{layers}", "head"], ["logits"], name="/head"))
    graph = helper.make_graph(nodes, "decoder", fed, results, _weights(), value_info=declared)
    return model_of(graph)


def attention_nodes(model: ModelProto) -> list[NodeProto]:
    """Return the PagedAttention nodes of a model, in order."""
    return [node for node in model.graph.node if node.op_type == "PagedAttention"]


def check_model_proto(
    model: ModelProto | bytes, folder: Path, block_size: int | None = None
) -> tuple[Finding, ...]:
    """Write a model into a folder, check it, and return the findings."""
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    findings = Findings()
    graph = read_graph(path, path.name, findings)
    if graph is not None:
        check_nodes(graph, findings, block_size)
    return tuple(findings)


def _layer(layer: int) -> list[NodeProto]:
    node = Node()
    tables = node.proto()
    tables.name = f"/layers.{layer}/attn"
    tables.input[0] = f"qkv{layer}"
    tables.input[3], tables.input[4] = (f"past_key_values.{layer}.{s}" for s in ("key", "value"))
    del tables.output[:]
    tables.output.extend((f"a{layer}", f"present.{layer}.key", f"present.{layer}.value"))
    return [
        helper.make_node("MatMul", [f"n{layer}", "qkv"], [f"qkv{layer}"], name=f"/{layer}/qkv"),
        tables,
        helper.make_node("MatMul", [f"a{layer}", "out"], [f"o{layer}"], name=f"/{layer}/out"),
        helper.make_node(
            "SkipSimplifiedLayerNormalization",
            [f"x{layer}", f"o{layer}", "norm"],
            [f"n{layer + 1}", "", "", f"x{layer + 1}"],
            name=f"/{layer}/norm",
            domain="com.microsoft",
        ),
    ]


def _tables() -> list[Input]:
    inputs = packed_inputs()
    names = ("cumulative_sequence_length", "past_seqlens", "block_table", "attention_metadata")
    return [inputs[name] for name in names]


def _value(name: str, width: int) -> Any:
    return helper.make_tensor_value_info(name, HALF, ["num_tokens", width])


def _cache(name: str) -> Any:
    return helper.make_tensor_value_info(name, HALF, CACHE)


def _weights() -> list[TensorProto]:
    shapes = {
        "embedding": (VOCAB, HIDDEN),
        "norm": (HIDDEN,),
        "qkv": (HIDDEN, PACKED),
        "out": (HIDDEN, HIDDEN),
        "head": (HIDDEN, VOCAB),
        "cos_cache": (128, HEAD_SIZE // 2),
        "sin_cache": (128, HEAD_SIZE // 2),
    }
    return [weight(name, shape) for name, shape in shapes.items()]


def weight(name: str, shape: Sequence[int]) -> TensorProto:
    """Return a float16 tensor of zeros."""
    count = 2
    for extent in shape:
        count *= extent
    return helper.make_tensor(name, HALF, shape, bytes(count), raw=True)
