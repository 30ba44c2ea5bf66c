"""Single changes of an exported folder, each with the ids that a check of it must report."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from pa_spec.checker import CheckOptions, Report, check_model

ChangeGraph = Callable[[ModelProto], None]
ChangeConfig = Callable[[dict[str, Any]], None]
ChangeFolder = Callable[[Path], None]


@dataclass(frozen=True)
class Mutation:
    """One change. expected: every id that is reported, notes too; empty = the folder stays clean.

    is_compared: the folder is compared with the model's own configuration.
    """

    name: str
    expected: frozenset[str]
    graph: ChangeGraph | None = None
    config: ChangeConfig | None = None
    folder: ChangeFolder | None = None
    is_compared: bool = False

    def compared(self) -> Mutation:
        """Return the same change, compared with the model's own configuration."""
        return replace(self, is_compared=True)


def broken(
    name: str,
    expected: str,
    graph: ChangeGraph | None = None,
    config: ChangeConfig | None = None,
    folder: ChangeFolder | None = None,
) -> Mutation:
    """Return a mutation; expected: ids with spaces between."""
    return Mutation(name, frozenset(expected.split()), graph, config, folder)


class ExportedModel:
    """An export that is read once and written again for each mutation, without its weights."""

    def __init__(self, folder: Path, reference: Path) -> None:
        self.folder = folder
        self.reference = reference
        self._graph = onnx.load(str(folder / "model.onnx"), load_external_data=False)
        self._config: dict[str, Any] = json.loads((folder / "genai_config.json").read_text())

    def check(self, mutation: Mutation, folder: Path) -> Report:
        """Write the mutated export into a folder and check it."""
        graph, config = ModelProto(), copy.deepcopy(self._config)
        graph.CopyFrom(self._graph)
        if mutation.graph is not None:
            mutation.graph(graph)
        if mutation.config is not None:
            mutation.config(config)
        (folder / "model.onnx").write_bytes(graph.SerializeToString())
        (folder / "genai_config.json").write_text(json.dumps(config))
        os.link(self.folder / "model.onnx.data", folder / "model.onnx.data")
        if mutation.folder is not None:
            mutation.folder(folder)
        reference = str(self.reference) if mutation.is_compared else None
        return check_model(folder, CheckOptions(reference_config=reference))


def ids_of(report: Report) -> frozenset[str]:
    """Return the ids of everything that was reported."""
    return frozenset(each.id for each in report.findings)


def attention(model: ModelProto, layer: int = 3) -> NodeProto:
    """Return the attention node of a layer."""
    nodes: list[NodeProto] = [e for e in model.graph.node if e.op_type == "PagedAttention"]
    return nodes[min(layer, len(nodes) - 1)]


def value(model: ModelProto, name: str) -> ValueInfoProto:
    """Return an input or output of the graph."""
    edge: list[ValueInfoProto] = [*model.graph.input, *model.graph.output]
    return next(each for each in edge if each.name == name)


def shaped(*names: str, dims: tuple[int | str, ...], kind: int = 0) -> ChangeGraph:
    """Declare other shapes, and another element type, of inputs and outputs."""

    def change(model: ModelProto) -> None:
        for name in names:
            found = value(model, name)
            kept = kind or found.type.tensor_type.elem_type
            found.CopyFrom(onnx.helper.make_tensor_value_info(name, kept, list(dims)))

    return change


def typed(*names: str, kind: int) -> ChangeGraph:
    """Declare another element type of inputs and outputs."""

    def change(model: ModelProto) -> None:
        for name in names:
            value(model, name).type.tensor_type.elem_type = kind

    return change


def each_cache(model: ModelProto, side: str = "") -> list[ValueInfoProto]:
    """Return every cache of the graph's edge whose name ends with "key", "value" or both."""
    ends = (side,) if side else (".key", ".value")
    return [e for e in (*model.graph.input, *model.graph.output) if e.name.endswith(ends)]


def axes(axis: int, extent: int | str) -> ChangeGraph:
    """Declare another extent of one axis of all caches."""

    def change(model: ModelProto) -> None:
        for cache in each_cache(model):
            dim = cache.type.tensor_type.shape.dim[axis]
            dim.Clear()
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = extent

    return change


def attribute(name: str, given: Any, layer: int = 3) -> ChangeGraph:
    """Give one node an attribute, or take it away (None)."""

    def change(model: ModelProto) -> None:
        node = attention(model, layer)
        kept = [each for each in node.attribute if each.name != name]
        if given is not None:
            kept.append(onnx.helper.make_attribute(name, given))
        copies = [copy.deepcopy(each) for each in kept]
        del node.attribute[:]
        node.attribute.extend(copies)

    return change


def node_input(index: int, name: str, layer: int = 3) -> ChangeGraph:
    """Give one node another input; "" takes it away."""

    def change(model: ModelProto) -> None:
        inputs = attention(model, layer).input
        while len(inputs) <= index:
            inputs.append("")
        inputs[index] = name

    return change


def stored(name: str, kind: int, *dims: int, index: int) -> ChangeGraph:
    """Store a small tensor in the file and give it to one node."""

    def change(model: ModelProto) -> None:
        count = 1
        for extent in dims:
            count *= extent
        tensor = onnx.helper.make_tensor(name, kind, dims, [1.0] * count)
        model.graph.initializer.append(tensor)
        node_input(index, name)(model)

    return change


def new_input(name: str, kind: int, *dims: int | str) -> ChangeGraph:
    """Add an input of the graph that no node uses."""

    def change(model: ModelProto) -> None:
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(dims)))

    return change


def new_state(past: str, present: str, *dims: int | str) -> ChangeGraph:
    """Add state to the graph: an input, and an output that repeats it."""

    def change(model: ModelProto) -> None:
        new_input(past, TensorProto.FLOAT16, *dims)(model)
        model.graph.node.append(onnx.helper.make_node("Identity", [past], [present]))
        output = onnx.helper.make_tensor_value_info(present, TensorProto.FLOAT16, list(dims))
        model.graph.output.append(output)

    return change


def drop_edge(name: str) -> ChangeGraph:
    """Take an input or output out of the graph's lists; nodes keep its name."""

    def change(model: ModelProto) -> None:
        for edge in (model.graph.input, model.graph.output):
            for each in [each for each in edge if each.name == name]:
                edge.remove(each)

    return change


def rename(old: str, new: str) -> ChangeGraph:
    """Call a tensor otherwise, everywhere in the graph."""

    def change(model: ModelProto) -> None:
        for each in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            each.name = new if each.name == old else each.name
        for node in model.graph.node:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    names[index] = new if name == old else name

    return change


def all_of(*changes: ChangeGraph) -> ChangeGraph:
    """Make several changes that are one mistake."""

    def change(model: ModelProto) -> None:
        for each in changes:
            each(model)

    return change


def at(place: str, given: Any) -> ChangeConfig:
    """Give a key of the configuration, by its dotted place, a value."""
    *path, last = place.split(".")

    def change(config: dict[str, Any]) -> None:
        found = config
        for part in path:
            found = found.setdefault(part, {})
        found[last] = given

    return change


def without(*places: str) -> ChangeConfig:
    """Take keys out of the configuration."""

    def change(config: dict[str, Any]) -> None:
        for place in places:
            *path, last = place.split(".")
            found = config
            for part in path:
                found = found[part]
            del found[last]

    return change


def both(*changes: ChangeConfig) -> ChangeConfig:
    """Change several keys that are one mistake."""

    def change(config: dict[str, Any]) -> None:
        for each in changes:
            each(config)

    return change
