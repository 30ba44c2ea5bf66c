"""Walks a model's graphs once: names, order, and the nodes and tensors to look at closely."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.scope import Scope, define
from pa_spec.checker.tensor_text import name_text

ATTENTION = "PagedAttention"
STATE_OPERATORS = frozenset(
    ("CausalConvWithState", "GatedDeltaNet", "LinearAttention", "VarlenCausalConvWithState")
)

PADDED = frozenset(("CausalConvWithState", "LinearAttention"))
"""State operators whose rows are padded to one length, not packed."""

_PREPARING = frozenset(("Mul", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"))

_Function = tuple[str, str, str]


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
    """What one walk finds.

    operators: counted in subgraphs and functions too. functions: places of PagedAttention nodes in
    local functions. recursive: a local function that calls itself, also through others.
    """

    main: Scope
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    sites: list[Site] = field(default_factory=list)
    tensors: list[StoredTensor] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    recursive: str = ""
    is_sound: bool = True

    def blame(
        self, findings: Findings, finding_id: str, place: Place, name: str, actual: str
    ) -> None:
        """Report a wrong name."""
        self.is_sound = False
        findings.add(finding_id, place, name_text(name), actual)


def walk_model(model: Any, file: str, findings: Findings) -> Walk:
    """Visit every node of a model once, graph by graph, and report wrong names.

    Subgraphs are queued, not recursed into.
    """
    walk = Walk(Scope(model.graph))
    queue = deque((walk.main,))
    while queue:
        scope = queue.popleft()
        for name in define(scope):
            place = Place(file, scope.within(name_text(name)))
            walk.blame(findings, "graph.duplicate_name", place, name, "given again")
        _stored_in_graph(walk, scope)
        for index, node in enumerate(scope.graph.node):
            _check_names(walk, Site(node, scope, index), file, findings)
            queue.extend(_visit(walk, Site(node, scope, index), file, findings))
        _check_results(walk, scope, file, findings)
    _walk_functions(walk, model)
    return walk


def padded_names(model: Any) -> frozenset[str]:
    """Return the names that operators on padded rows read, and what only prepares them."""
    found: set[str] = set()
    for node in reversed(model.graph.node):
        is_preparing = node.op_type in _PREPARING and not found.isdisjoint(node.output)
        if is_preparing or node.op_type in PADDED:
            found.update(node.input)
    return frozenset(found)


def label_of(node: Any) -> str:
    """Return what a node is called: its name, else after its first output."""
    named = node.name or next((each for each in node.output if each), "") or node.op_type
    return name_text(named) or "unnamed node"


def repeated_attributes(node: Any) -> list[str]:
    """Return the names of attributes that a node gives again, each once."""
    if len(node.attribute) < 2:
        return []
    counts = Counter(each.name for each in node.attribute)
    return [name for name, count in counts.items() if count > 1]


def subgraphs(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs among a node's attributes, with the attributes' names."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def _visit(walk: Walk, site: Site, file: str, findings: Findings) -> list[Scope]:
    """Note what a node is, report attributes given twice; return the scopes of its subgraphs."""
    node, scope = site.node, site.scope
    walk.operators[node.domain, node.op_type] += 1
    if node.op_type == ATTENTION or node.op_type in STATE_OPERATORS:
        walk.sites.append(site)
    if not node.attribute:
        return []
    for name in repeated_attributes(node):
        place = Place(file, scope.within(label_of(node)))
        findings.add("graph.duplicate_name", place, name_text(name), "given again")
    for attribute in node.attribute:
        if attribute.HasField("t") or attribute.tensors or attribute.HasField("sparse_tensor"):
            _stored_in_attribute(walk, scope.within(label_of(node)), attribute)
    return [
        Scope(
            graph,
            scope.within(f"{label_of(node)}.{name_text(name)}"),
            scope,
            site.position,
            scope.depth + 1,
        )
        for name, graph in subgraphs(node)
    ]


def _check_names(walk: Walk, site: Site, file: str, findings: Findings) -> None:
    node, scope, index = site
    names = scope.names
    for name in dict.fromkeys(node.input):
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
        place = Place(file, scope.within(name_text(name)))
        if name in seen:
            walk.blame(findings, "graph.duplicate_name", place, name, "given again")
        elif not scope.is_visible(name, len(scope.graph.node)):
            walk.blame(findings, "graph.undefined_name", place, name, "undefined")
        seen.add(name)


def _stored_in_graph(walk: Walk, scope: Scope) -> None:
    for tensor in scope.graph.initializer:
        walk.tensors.append(StoredTensor(scope.within(name_text(tensor.name)), tensor))
    for sparse in scope.graph.sparse_initializer:
        place = scope.within(name_text(sparse.values.name))
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
    calls: dict[_Function, set[_Function]] = {}
    for function in model.functions:
        called = calls.setdefault((function.domain, function.name, function.overload), set())
        queue = deque((function.node,))
        while queue:
            for node in queue.popleft():
                walk.operators[node.domain, node.op_type] += 1
                called.add((node.domain, node.op_type, node.overload))
                if node.op_type == ATTENTION:
                    walk.functions.append(f"{name_text(function.name)} > {label_of(node)}")
                queue.extend(graph.node for _, graph in subgraphs(node))
    walk.recursive = _recursive(calls)


def _recursive(calls: dict[_Function, set[_Function]]) -> str:
    """Return the name of a function that calls itself, "" where none does."""
    callers: dict[_Function, list[_Function]] = {each: [] for each in calls}
    waiting = {}
    for function, called in calls.items():
        local = called & calls.keys()
        waiting[function] = len(local)
        for each in local:
            callers[each].append(function)
    finished = [each for each, count in waiting.items() if not count]
    while finished:
        for caller in callers[finished.pop()]:
            waiting[caller] -= 1
            if not waiting[caller]:
                finished.append(caller)
    left = [each for each, count in waiting.items() if count]
    if not left:
        return ""
    # From any of these some call leads to another one of them, so a long walk ends in a circle.
    known, function = set(left), left[0]
    for _ in left:
        function = next(each for each in sorted(calls[function]) if each in known)
    return name_text(function[1])
