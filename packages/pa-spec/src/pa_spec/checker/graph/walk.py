"""Walks a model's graphs once: names, order, and the nodes and tensors to look at closely."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.element import shown
from pa_spec.checker.graph.scope import Scope, define

ATTENTION = "PagedAttention"
STATE_OPERATORS = frozenset(
    ("CausalConvWithState", "GatedDeltaNet", "LinearAttention", "VarlenCausalConvWithState")
)


class Site(NamedTuple):
    """A node with the graph that it stands in."""

    node: Any
    scope: Scope
    position: int


class StoredTensor(NamedTuple):
    """A tensor that the file holds or names, and where it stands."""

    place: str
    tensor: Any


@dataclass(slots=True)
class Walk:
    """What one walk finds; operators count the nodes of subgraphs and functions too."""

    main: Scope
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    sites: list[Site] = field(default_factory=list)
    tensors: list[StoredTensor] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    is_sound: bool = True

    def blame(
        self, findings: Findings, finding_id: str, place: Place, name: str, actual: str
    ) -> None:
        """Report a wrong name."""
        self.is_sound = False
        findings.add(finding_id, place, shown(name), actual)


def walk_model(model: Any, file: str, findings: Findings) -> Walk:
    """Visit every node of a model once, graph by graph, and report wrong names.

    Subgraphs are queued, not recursed into.
    """
    walk = Walk(Scope(model.graph))
    queue = deque((walk.main,))
    while queue:
        scope = queue.popleft()
        for name in define(scope):
            place = Place(file, scope.within(shown(name)))
            walk.blame(findings, "graph.duplicate_name", place, name, "given again")
        _stored_in_graph(walk, scope)
        for index, node in enumerate(scope.graph.node):
            _check_names(walk, Site(node, scope, index), file, findings)
            queue.extend(_visit(walk, Site(node, scope, index)))
        _check_results(walk, scope, file, findings)
    _walk_functions(walk, model)
    return walk


def label_of(node: Any) -> str:
    """Return what a node is called: its name, else after its first output."""
    named = node.name or next((each for each in node.output if each), "") or node.op_type
    return shown(named) or "unnamed node"


def subgraphs(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs among a node's attributes, with the attributes' names."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def _visit(walk: Walk, site: Site) -> list[Scope]:
    """Note what a node is; return the scopes of its subgraphs."""
    node, scope = site.node, site.scope
    walk.operators[node.domain, node.op_type] += 1
    if node.op_type == ATTENTION or node.op_type in STATE_OPERATORS:
        walk.sites.append(site)
    if not node.attribute:
        return []
    for attribute in node.attribute:
        if attribute.HasField("t") or attribute.tensors or attribute.HasField("sparse_tensor"):
            _stored_in_attribute(walk, scope.within(label_of(node)), attribute)
    return [
        Scope(
            graph,
            scope.within(f"{label_of(node)}.{shown(name)}"),
            scope,
            site.position,
            scope.depth + 1,
        )
        for name, graph in subgraphs(node)
    ]


def _check_names(walk: Walk, site: Site, file: str, findings: Findings) -> None:
    node, scope, index = site
    names = scope.names
    for name in node.input:
        found = names.get(name)
        if not name or (found is not None and found.order < index):
            continue
        if scope.is_visible(name, index):
            continue
        place = Place(file, scope.within(label_of(node)))
        if scope.find(name, index) is None:
            walk.blame(findings, "graph.undefined_name", place, name, "undefined")
        else:
            walk.blame(findings, "graph.not_sorted", place, name, "used before it is computed")


def _check_results(walk: Walk, scope: Scope, file: str, findings: Findings) -> None:
    seen = set()
    for value in scope.graph.output:
        name = value.name
        place = Place(file, scope.within(shown(name)))
        if name in seen:
            walk.blame(findings, "graph.duplicate_name", place, name, "given again")
        elif not scope.is_visible(name, len(scope.graph.node)):
            walk.blame(findings, "graph.undefined_name", place, name, "undefined")
        seen.add(name)


def _stored_in_graph(walk: Walk, scope: Scope) -> None:
    for tensor in scope.graph.initializer:
        walk.tensors.append(StoredTensor(scope.within(shown(tensor.name)), tensor))
    for sparse in scope.graph.sparse_initializer:
        place = scope.within(shown(sparse.values.name))
        walk.tensors.extend(
            (StoredTensor(place, sparse.values), StoredTensor(place, sparse.indices))
        )


def _stored_in_attribute(walk: Walk, place: str, attribute: Any) -> None:
    found = list(attribute.tensors)
    if attribute.HasField("t"):
        found.append(attribute.t)
    if attribute.HasField("sparse_tensor"):
        found += (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    walk.tensors.extend(StoredTensor(place, tensor) for tensor in found)


def _walk_functions(walk: Walk, model: Any) -> None:
    """Count the nodes of local functions; their shapes depend on who calls them."""
    for function in model.functions:
        queue = deque((function.node,))
        while queue:
            for node in queue.popleft():
                walk.operators[node.domain, node.op_type] += 1
                if node.op_type == ATTENTION:
                    walk.functions.append(f"{shown(function.name)} > {label_of(node)}")
                queue.extend(graph.node for _, graph in subgraphs(node))
