"""Which state a node reads and writes: the configuration's templates say it, not words in names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from exported_model import HALF, PAST, PRESENT, STEP, configured, graph, node, tensor
from pa_spec.checker import Findings
from pa_spec.checker.exported.check import read_export
from pa_spec.checker.exported.pairing import pair_state, report_pairing
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph, GraphNode

INPUTS, OUTPUTS = "model.decoder.inputs", "model.decoder.outputs"
KEY, VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
KEY_OUT, VALUE_OUT = "present.%d.key", "present.%d.value"
NODE = "model.onnx: /model/layers.{}/attn/PagedAttention: "
GROUPS = "model.decoder.state_groups"
HYBRID = [
    {"kind": "paged_kv", "layer_ids": [0, 1]},
    {"kind": "fixed_conv", "layer_ids": [0, 1]},
    {"kind": "fixed_recurrent", "layer_ids": [0, 1]},
]
EVERY = {**STEP, **PAST}
STATE = ("conv_state", "recurrent_state")
ROW = ("batch_size", 128, 3)


def paired(document: Any, model: Graph, *before: tuple[str, str]) -> list[str]:
    """Report the pairing alone. before: ids and names that were reported about the second node."""
    findings = Findings()
    export = read_export(document, findings)
    assert export is not None
    first = len(list(findings))
    for finding_id, name in before:
        findings.add(finding_id, Place("model.onnx", node(1, EVERY).place), name, "x", other="y")
    said = findings.total
    report_pairing(export.decoder, model, pair_state(export.decoder, model), first)
    return [str(each) for each in findings][said:]


def named_by(*texts: str) -> Any:
    keys = (
        f"{INPUTS}.past_key_names",
        f"{INPUTS}.past_value_names",
        f"{OUTPUTS}.present_key_names",
        f"{OUTPUTS}.present_value_names",
    )
    return configured(dict(zip(keys, texts, strict=True)))


def with_outputs(*outputs: str, layer: int = 1, **changes: Any) -> Graph:
    """Return the graph with one node that writes other outputs."""
    changed = replace(node(layer, EVERY), outputs=("attn", *outputs), **changes)
    nodes = [node(0, EVERY), node(1, EVERY)]
    nodes[layer] = changed
    return graph(nodes=nodes)


@pytest.mark.rule("V54")
def test_a_cache_output_is_the_one_that_the_templates_pair_with_its_input() -> None:
    bound = "the graph output that is bound to the buffer of"
    exchanged = with_outputs("present.1.value", "present.1.key")

    assert paired(named_by(KEY, VALUE, VALUE_OUT, KEY_OUT), graph()) == [
        NODE.format(0) + f"key_cache_out: expected present.0.value, {bound} past_key_values.0.key, "
        "got present.0.key, and 3 more (V54)"
    ]
    assert paired(named_by(VALUE, KEY, KEY_OUT, VALUE_OUT), graph()) == [
        NODE.format(0) + f"key_cache_out: expected present.0.value, {bound} past_key_values.0.key, "
        "got present.0.key, and 3 more (V54)"
    ]
    assert paired(configured(), exchanged) == [
        NODE.format(1) + f"key_cache_out: expected present.1.key, {bound} past_key_values.1.key, "
        "got present.1.value, and 1 more (V54)"
    ]
    assert paired(configured(), graph()) == []


def test_a_node_reads_as_key_cache_what_the_templates_name_so() -> None:
    document = named_by(VALUE, KEY, VALUE_OUT, KEY_OUT)

    assert paired(document, graph()) == [
        NODE.format(0) + "key_cache: expected an input that past_key_names names, got "
        "past_key_values.0.key, as past_value_names has it, and 3 more "
        "(exported.state_misplaced)"
    ]


@pytest.mark.parametrize(
    "model",
    [
        with_outputs("present.1.key", "", depth=1),
        with_outputs("inside", "present.1.value"),
        with_outputs(),
        graph(without=["present.1.key"]),
        graph(nodes=[replace(node(0, EVERY), inputs=node(0, EVERY).inputs[:3])]),
    ],
    ids=["a branch", "no graph output", "no outputs", "an absent output", "no caches"],
)
def test_what_other_rules_say_is_not_crossed(model: Graph) -> None:
    assert paired(configured(), model) == []


def test_caches_of_layers_without_a_group_and_of_unusable_templates_are_left() -> None:
    exchanged = with_outputs("present.1.value", "present.1.key")
    one = configured({GROUPS: [{"kind": "paged_kv", "layer_ids": [0]}]})
    unusable = named_by(KEY, VALUE, "present.key", "present.value")

    assert paired(one, exchanged) == []
    assert paired(unusable, exchanged) == []


def test_a_node_that_was_spoken_about_is_left() -> None:
    exchanged = with_outputs("present.1.value", "present.1.key")

    assert paired(configured(), exchanged, ("graph.cache_shared", "key_cache")) == [
        NODE.format(1) + "value_cache_out: expected present.1.value, the graph output that is "
        "bound to the buffer of past_key_values.1.value, got present.1.key (V54)"
    ]
    both = [("graph.cache_shared", name) for name in ("key_cache", "value_cache")]
    assert paired(configured(), exchanged, *both) == []
    assert len(paired(configured(), exchanged, ("graph.cache_shared", "query"))) == 1


def state_node(op_type: str, part: str, layer: int, index: int, output: int) -> GraphNode:
    """Return a node of fixed state of a layer that writes the output of another."""
    inputs = [None] * index + [tensor(f"past_key_values.{layer}.{part}", HALF, *ROW)]
    return GraphNode(
        place=f"/model/layers.{layer}/{part}",
        op_type=op_type,
        domain="com.microsoft",
        attributes={},
        inputs=tuple(inputs),
        outputs=("mixed", f"present.{output}.{part}"),
    )


def hybrid(*state: GraphNode) -> Graph:
    edges = [(layer, part) for layer in (0, 1) for part in STATE]
    inputs = [tensor(f"past_key_values.{layer}.{part}", HALF, *ROW) for layer, part in edges]
    outputs = [tensor(f"present.{layer}.{part}", HALF, *ROW) for layer, part in edges]
    return replace(graph(*inputs, outputs=outputs), state=state)


@pytest.mark.parametrize(
    ("op_type", "part", "index", "names"),
    [
        ("CausalConvWithState", "conv_state", 3, "present_conv_names"),
        ("VarlenCausalConvWithState", "conv_state", 4, "present_conv_names"),
        ("GatedDeltaNet", "recurrent_state", 6, "present_recurrent_names"),
        ("LinearAttention", "recurrent_state", 3, "present_recurrent_names"),
    ],
)
def test_fixed_state_is_written_to_the_output_of_its_layer(
    op_type: str, part: str, index: int, names: str
) -> None:
    crossed = hybrid(*(state_node(op_type, part, layer, index, 1 - layer) for layer in (0, 1)))
    right = hybrid(*(state_node(op_type, part, layer, index, layer) for layer in (0, 1)))
    document = configured({GROUPS: HYBRID})

    assert paired(document, crossed) == [
        (
            f"model.onnx: /model/layers.0/{part}: {names}: expected present.0.{part}, the output "
            f"that belongs to past_key_values.0.{part}, got present.1.{part}, and 1 more "
            "(exported.state_crossed)"
        )
    ]
    assert paired(document, right) == []


def test_a_convolution_keeps_no_recurrent_state() -> None:
    other = state_node("CausalConvWithState", "recurrent_state", 0, 3, 0)

    assert paired(configured({GROUPS: HYBRID}), hybrid(other)) == [
        (
            "model.onnx: /model/layers.0/recurrent_state: past_conv_names: expected an input that "
            "past_conv_names names, got past_key_values.0.recurrent_state, as past_recurrent_names "
            "has it (exported.state_misplaced)"
        )
    ]


def test_names_of_both_layers_count_as_spoken_about() -> None:
    document = configured()
    findings = Findings()
    export = read_export(document, findings)
    assert export is not None
    model = graph(nodes=[node(0, EVERY), reading(0, writing=1)])

    pairing = pair_state(export.decoder, model)
    names = report_pairing(export.decoder, model, pairing, 0)

    assert pairing.cache_outputs() == {
        (node(1, EVERY).place, "key_cache"),
        (node(1, EVERY).place, "value_cache"),
    }
    assert names == {*PAST, *PRESENT}


def reading(layer: int, writing: int) -> GraphNode:
    """Return the node of one layer with the caches of another."""
    inputs: Sequence[Any] = node(layer, EVERY).inputs
    return replace(node(writing, EVERY), inputs=tuple(inputs))
