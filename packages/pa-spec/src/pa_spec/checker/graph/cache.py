"""Caches at the edge of the graph: fed from outside, updated in place, and each with one owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.call import inputs_by_name
from pa_spec.checker.graph.element import shown
from pa_spec.checker.graph.graph import Graph, GraphNode, GraphTensor, TensorSource

_OUTPUTS = {"key_cache": 1, "value_cache": 2}
_WORD = re.compile(r"[A-Za-z]+|\d+")


def check_cache_binding(graph: Graph, node: GraphNode, found: set[str], findings: Findings) -> None:
    """V54: both caches are graph inputs, and their outputs the graph outputs that belong to them.

    found: names that rules about the node already speak of.
    """
    place = Place(graph.file, node.place)
    for name, cache in _caches(node):
        if cache.source in (TensorSource.NODE, TensorSource.INITIALIZER):
            actual = f"computed by {shown(cache.producer)}" if cache.producer else "a constant"
            findings.add("V54", place, name, actual, case="not_input")
            continue
        output = _output(node, name)
        if output is None or f"{name}_out" in found or cache.source is TensorSource.UNDEFINED:
            continue
        values = {"cache": shown(cache.name)}
        if output not in graph.outputs:
            actual = f"{shown(output)}, which is none"
            findings.add("V54", place, f"{name}_out", actual, case="not_output", **values)
        elif _belongs_elsewhere(cache.name, output, graph):
            expected = shown(_partner(cache.name, graph) or "")
            values["output"] = expected
            findings.add("V54", place, f"{name}_out", shown(output), case="crossed", **values)


def check_cache_owners(file: str, nodes: Sequence[GraphNode], findings: Findings) -> None:
    """Report a cache that two nodes write with different keys, or a node for both its caches."""
    owners: dict[str, tuple[str, GraphNode]] = {}
    for node in nodes:
        for name, cache in _caches(node):
            if cache.source is not TensorSource.GRAPH_INPUT:
                continue
            known = owners.setdefault(cache.name, (name, node))
            if known == (name, node) or (known[1] is not node and _same_rows(known[1], node)):
                continue
            other = known[0] if known[1] is node else known[1].place
            place = Place(file, node.place)
            findings.add("graph.cache_shared", place, name, shown(cache.name), other=other)


def _caches(node: GraphNode) -> Iterator[tuple[str, GraphTensor]]:
    inputs = inputs_by_name(node)
    return ((name, inputs[name]) for name in _OUTPUTS if name in inputs)


def _output(node: GraphNode, name: str) -> str | None:
    index = _OUTPUTS[name]
    return node.outputs[index] if len(node.outputs) > index else None


def _same_rows(one: GraphNode, other: GraphNode) -> bool:
    """Whether two nodes store the same keys and values: layers that share a cache."""
    names = [
        [each.name if each is not None else None for each in node.inputs[:3]]
        for node in (one, other)
    ]
    if one.inputs[1:3] == (None, None):
        return names[0] == names[1]
    return names[0][1:] == names[1][1:]


def _belongs_elsewhere(cache: str, output: str, graph: Graph) -> bool:
    """Whether a graph output is, by its name, of another cache, and this cache has its own."""
    partner = _partner(cache, graph)
    return partner is not None and _key(output) is not None and _key(output) != _key(cache)


def _partner(cache: str, graph: Graph) -> str | None:
    """Return the graph output with the layer and side of a cache's name, if there is just one."""
    wanted = _key(cache)
    if wanted is None:
        return None
    found = [name for name in graph.outputs if _key(name) == wanted]
    return found[0] if len(found) == 1 else None


def _key(name: str) -> tuple[tuple[str, ...], str] | None:
    """Return the numbers and the side of a cache's name ("past_key_values.3.value")."""
    words = _WORD.findall(name)
    sides = [word for word in words if word in ("key", "value")]
    last = sides[-1] if sides else None
    numbers = tuple(word for word in words if word.isdigit())
    return (numbers, last) if last and numbers else None
