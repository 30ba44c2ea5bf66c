"""Mutations of what belongs together: caches, layers, places of inputs, rotation."""

from __future__ import annotations

from typing import Any

from export_mutation import (
    ChangeConfig,
    ChangeGraph,
    all_of,
    at,
    attention,
    attribute,
    both,
    broken,
    node_input,
    rename,
    typed,
)
from graph_mutations import INPUTS, OUTPUTS
from onnx import ModelProto, NodeProto, TensorProto, helper

OWN_NAMES = ("kc.%d", "vc.%d", "kco.%d", "vco.%d")
_GIVEN = (
    "past_key_values.%d.key",
    "past_key_values.%d.value",
    "present.%d.key",
    "present.%d.value",
)


def templates(*texts: str) -> ChangeConfig:
    """Give the templates of key and value inputs, then outputs."""
    keys = (
        f"{INPUTS}.past_key_names",
        f"{INPUTS}.past_value_names",
        f"{OUTPUTS}.present_key_names",
        f"{OUTPUTS}.present_value_names",
    )
    return both(*(at(key, text) for key, text in zip(keys, texts, strict=True)))


def own_names(model: ModelProto) -> None:
    names = {
        given.replace("%d", str(layer)): own.replace("%d", str(layer))
        for layer in range(30)
        for given, own in zip(_GIVEN, OWN_NAMES, strict=True)
    }
    for each in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        each.name = names.get(each.name, each.name)
    for node in model.graph.node:
        for edge in (node.input, node.output):
            for index, name in enumerate(edge):
                edge[index] = names.get(name, name)


def _outputs_exchanged(model: ModelProto) -> None:
    outputs = attention(model).output
    outputs[1], outputs[2] = outputs[2], outputs[1]


def _inputs_exchanged(model: ModelProto) -> None:
    inputs = attention(model).input
    inputs[3], inputs[4] = inputs[4], inputs[3]


def _layers_exchanged(model: ModelProto) -> None:
    one, other = attention(model, 3), attention(model, 9)
    one.output[1], other.output[1] = other.output[1], one.output[1]


def _caches_of_another_layer(model: ModelProto) -> None:
    attention(model, 3).input[3:5] = attention(model, 4).input[3:5]


def exchanged(op_type: str, index: int, *, inputs: bool = False) -> ChangeGraph:
    """Exchange an input, or an output, of the first two nodes of an operator."""

    def change(model: ModelProto) -> None:
        nodes = [each for each in model.graph.node if each.op_type == op_type]
        one, other = ((each.input if inputs else each.output) for each in nodes[:2])
        one[index], other[index] = other[index], one[index]

    return change


def _everywhere(name: str, given: int) -> ChangeGraph:
    return all_of(*(attribute(name, given, layer) for layer in range(30)))


def _misspelt(model: ModelProto) -> None:
    attention(model).op_type = "PagedAttentoin"


def _without_attention(model: ModelProto) -> None:
    node = attention(model)
    edges = zip((node.input[0], *node.input[3:5]), node.output, strict=True)
    copies: list[NodeProto] = [helper.make_node("Identity", [a], [b]) for a, b in edges]
    index = list(model.graph.node).index(node)
    model.graph.node.remove(node)
    copies[0] = helper.make_node(
        "Slice", [copies[0].input[0], "zero", "end", "axis"], [node.output[0]]
    )
    for each in reversed(copies):
        model.graph.node.insert(index, each)
    for name, value in (("zero", 0), ("end", 576), ("axis", 1)):
        model.graph.initializer.append(helper.make_tensor(name, 7, [1], [value]))


def _short_table(model: ModelProto) -> None:
    table = next(each for each in model.graph.initializer if each.name == "cos_cache")
    table.dims[0] = 4096
    next(each for each in table.external_data if each.key == "length").value = str(4096 * 32 * 2)
    for each in model.graph.value_info:
        if each.name == "cos_cache":
            each.type.tensor_type.shape.dim[0].dim_value = 4096


def _exchange(place: str, side: str) -> ChangeConfig:
    """Exchange the templates of convolutions and recurrences."""

    def change(config: dict[str, Any]) -> None:
        names = config["model"]["decoder"][place.rpartition(".")[2]]
        conv, recurrent = (f"{side}_{kind}_names" for kind in ("conv", "recurrent"))
        names[conv], names[recurrent] = names[recurrent], names[conv]

    return change


PAIRS = (
    broken(
        "output templates exchanged",
        "V54",
        config=templates(_GIVEN[0], _GIVEN[1], _GIVEN[3], _GIVEN[2]),
    ),
    broken(
        "input templates exchanged",
        "V54",
        config=templates(_GIVEN[1], _GIVEN[0], _GIVEN[2], _GIVEN[3]),
    ),
    broken(
        "all templates exchanged",
        "exported.state_misplaced",
        config=templates(_GIVEN[1], _GIVEN[0], _GIVEN[3], _GIVEN[2]),
    ),
    broken("outputs of a node exchanged", "V54", _outputs_exchanged),
    broken("inputs of a node exchanged", "V54", _inputs_exchanged),
    broken(
        "inputs and outputs of a node exchanged",
        "exported.state_misplaced",
        all_of(_inputs_exchanged, _outputs_exchanged),
    ),
    broken("caches of another layer", "V54", _caches_of_another_layer),
    broken(
        "outputs of a node exchanged under names of their own",
        "V54",
        all_of(own_names, _outputs_exchanged),
        templates(*OWN_NAMES),
    ),
    broken(
        "outputs of two layers exchanged under names of their own",
        "V54",
        all_of(own_names, _layers_exchanged),
        templates(*OWN_NAMES),
    ),
    broken("names of their own", "", own_names, templates(*OWN_NAMES)),
)


def _lengths_exchanged(model: ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "PagedAttention":
            node.input[5], node.input[6] = node.input[6], node.input[5]


def _misspelt_activation(model: ModelProto) -> None:
    next(each for each in model.graph.node if each.op_type == "Sigmoid").op_type = "Sigmoide"


PLACES = (
    broken("lengths exchanged at all nodes", "V33", _lengths_exchanged),
    broken(
        "boundaries and past lengths exchanged",
        "exported.input_exchanged",
        config=both(
            at(f"{INPUTS}.cumulative_sequence_lengths", "past_sequence_lengths"),
            at(f"{INPUTS}.past_sequence_lengths", "cumulative_sequence_lengths"),
        ),
    ),
    broken(
        "table and metadata exchanged",
        "exported.input_exchanged",
        config=both(
            at(f"{INPUTS}.block_table", "attention_metadata"),
            at(f"{INPUTS}.attention_metadata", "block_table"),
        ),
    ),
    broken(
        "ids and lengths exchanged",
        "exported.tensor",
        config=both(
            at(f"{INPUTS}.input_ids", "past_sequence_lengths"),
            at(f"{INPUTS}.past_sequence_lengths", "input_ids"),
        ),
    ),
    broken("ids of float32", "exported.tensor", typed("input_ids", kind=TensorProto.FLOAT)),
    broken(
        "past lengths as boundaries",
        "exported.input_exchanged",
        config=at(f"{INPUTS}.cumulative_sequence_lengths", "past_sequence_lengths"),
    ),
    broken(
        "names exchanged in both",
        "",
        all_of(
            rename("past_sequence_lengths", "held"),
            rename("cumulative_sequence_lengths", "past_sequence_lengths"),
            rename("held", "cumulative_sequence_lengths"),
        ),
        both(
            at(f"{INPUTS}.cumulative_sequence_lengths", "past_sequence_lengths"),
            at(f"{INPUTS}.past_sequence_lengths", "cumulative_sequence_lengths"),
        ),
    ),
)

LAYERS = (
    broken("misspelt operator", "exported.layer_unread", _misspelt),
    broken("misspelt activation", "graph.unknown_operator", _misspelt_activation),
    broken("layer without attention", "exported.layer_unread", _without_attention),
    broken("3 heads in all layers", "V15", _everywhere("num_heads", 3)),
    broken("short cos_cache", "V40", _short_table),
    broken("no key cache", "graph.missing_input", node_input(3, "")),
    broken("a window in one layer", "", attribute("local_window_size", 128)),
)

ROTARY = (
    broken("no rotation", "exported.rotary_differs", _everywhere("do_rotary", 0)),
    broken("no rotation in a layer", "exported.rotary_differs", attribute("do_rotary", 0)),
    broken(
        "no rotary tables in a layer",
        "exported.rotary_differs",
        all_of(attribute("do_rotary", 0), node_input(8, ""), node_input(9, "")),
    ),
    broken("neighbours in pairs", "exported.rotary_differs", _everywhere("rotary_interleaved", 1)),
    broken(
        "neighbours in pairs in a layer",
        "exported.rotary_differs",
        attribute("rotary_interleaved", 1),
    ),
)

RECURRENT = (
    broken(
        "templates of both kinds of fixed state exchanged",
        "exported.state_misplaced graph.position_ids",
        config=both(_exchange(INPUTS, "past"), _exchange(OUTPUTS, "present")),
    ),
    broken(
        "input templates of both kinds of fixed state exchanged",
        "exported.state_crossed graph.position_ids",
        config=_exchange(INPUTS, "past"),
    ),
    broken(
        "recurrent outputs of two layers exchanged",
        "exported.state_crossed graph.position_ids",
        exchanged("GatedDeltaNet", 1),
    ),
    broken(
        "recurrent inputs of two layers exchanged",
        "exported.state_crossed graph.position_ids",
        exchanged("GatedDeltaNet", 6, inputs=True),
    ),
    broken(
        "convolution outputs of two layers exchanged",
        "exported.state_crossed graph.position_ids",
        exchanged("VarlenCausalConvWithState", 1),
    ),
)

CONVOLUTION = (
    broken(
        "outputs of two layers exchanged",
        "exported.state_crossed exported.state_not_packed",
        exchanged("CausalConvWithState", 1),
    ),
    broken(
        "inputs of two layers exchanged",
        "exported.state_crossed exported.state_not_packed",
        exchanged("CausalConvWithState", 3, inputs=True),
    ),
)
