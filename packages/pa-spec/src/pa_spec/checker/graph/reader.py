"""Reads an ONNX file into the checker's Graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.external import check_stored_tensors
from pa_spec.checker.graph.graph import (
    AttributeValue,
    Graph,
    GraphNode,
    GraphTensor,
    TensorSource,
)
from pa_spec.checker.graph.protobuf import read_model
from pa_spec.checker.graph.scope import Definition
from pa_spec.checker.graph.tensor import UNKNOWN_TENSOR, Tensors, declared_types, read_tensors
from pa_spec.checker.graph.version import check_operators, check_versions
from pa_spec.checker.graph.walk import (
    ATTENTION,
    Site,
    Walk,
    label_of,
    repeated_attributes,
    walk_model,
)

_UNDEFINED = Definition(-1, TensorSource.UNDEFINED)


def read_graph(path: Path, file: str, findings: Findings) -> Graph | None:
    """Return what the checker needs of an ONNX file, or None after reporting why it has nothing.

    file: what findings call it (Place.file). Reads the graph only: data of tensors beside the file
    is looked for, never opened.
    """
    model = read_model(path, file, findings)
    if model is None:
        return None
    check_versions(model, file, findings)
    walk = walk_model(model, file, findings)
    stored_wrong = check_stored_tensors(walk.tensors, path, file, findings)
    if walk.is_sound:
        tensors = read_tensors(model, walk, file, findings, stored_wrong)
    else:
        # Names that mean two things have no one shape; what the file declares is all there is.
        tensors = Tensors(declared_types(model.graph))
    _check_functions(walk, file, findings)
    check_operators(model, walk.operators, file, findings)
    known: dict[str, GraphTensor] = {}
    nodes = [_node(site, tensors, known) for site in walk.sites]
    return Graph(
        file=file,
        inputs=_inputs(model, walk, tensors),
        outputs=_outputs(model, walk, tensors),
        attention=tuple(node for node in nodes if node.op_type == ATTENTION),
        state=tuple(node for node in nodes if node.op_type != ATTENTION),
        operators=dict(walk.operators),
        opsets={each.domain: each.version for each in model.opset_import},
        functions=len(walk.functions),
        is_sound=walk.is_sound and tensors.is_sound,
    )


def _check_functions(walk: Walk, file: str, findings: Findings) -> None:
    if walk.recursive:
        findings.add("graph.recursive_function", Place(file), walk.recursive, "calls itself")
    for label in walk.functions:
        findings.add("graph.attention_in_function", Place(file, label), ATTENTION, "in a function")


def _node(site: Site, tensors: Tensors, known: dict[str, GraphTensor]) -> GraphNode:
    """Return a node. known: operands of the main graph, where a name means one thing."""
    node, scope = site.node, site.scope
    return GraphNode(
        place=scope.within(label_of(node)),
        op_type=node.op_type,
        domain=node.domain,
        attributes={each.name: _attribute(each) for each in node.attribute},
        inputs=tuple(
            _operand(site, name, tensors, {} if scope.depth else known) if name else None
            for name in node.input
        ),
        outputs=tuple(name or None for name in node.output),
        depth=scope.depth,
        repeated=frozenset(repeated_attributes(node)),
        declared=tuple(map(tensors.declared_in(scope).get, node.output)),
    )


def _operand(site: Site, name: str, tensors: Tensors, known: dict[str, GraphTensor]) -> GraphTensor:
    if name in known:
        return known[name]
    found = site.scope.find(name, site.position) or _UNDEFINED
    tensor = tensors.of(site.scope, name, site.position)
    known[name] = GraphTensor(name, tensor, found.source, found.producer)
    return known[name]


def _inputs(model: Any, walk: Walk, tensors: Tensors) -> dict[str, GraphTensor]:
    """Return what a caller feeds: an initializer of an input's name is only its default."""
    names = [value.name for value in model.graph.input]
    fed = (name for name in names if walk.main.names[name].source is TensorSource.GRAPH_INPUT)
    return {
        name: GraphTensor(name, tensors.joined.get(name, UNKNOWN_TENSOR), TensorSource.GRAPH_INPUT)
        for name in fed
    }


def _outputs(model: Any, walk: Walk, tensors: Tensors) -> dict[str, GraphTensor]:
    found: dict[str, GraphTensor] = {}
    for value in model.graph.output:
        definition = walk.main.names.get(value.name, _UNDEFINED)
        tensor = tensors.joined.get(value.name, UNKNOWN_TENSOR)
        found[value.name] = GraphTensor(value.name, tensor, definition.source, definition.producer)
    return found


def _attribute(attribute: Any) -> AttributeValue:
    """Return a value of a kind that operators here use; None for the others and for references."""
    match attribute.UNDEFINED if attribute.ref_attr_name else attribute.type:
        case attribute.INT:
            return int(attribute.i)
        case attribute.FLOAT:
            return float(attribute.f)
        case attribute.STRING:
            return bytes(attribute.s).decode("utf-8", "backslashreplace")
        case attribute.INTS:
            return tuple(attribute.ints)
        case attribute.FLOATS:
            return tuple(attribute.floats)
        case _:
            return None
