"""Which tensors a node's own check already spoke about, so that one mistake is said once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pa_spec.checker.finding import Findings
from pa_spec.checker.graph.graph import Graph, GraphNode, TensorSource
from pa_spec.contract.finding_kind import Severity
from pa_spec.contract.operator_table import operator_inputs

_CACHES = (3, 4)
_WRONG = (Severity.VIOLATION, Severity.UNREADABLE)


def blamed_tensors(graph: Graph, findings: Findings, first: int) -> frozenset[str]:
    """Return the names that findings from the one numbered `first` on are about.

    A finding about either cache of a node is about both of them and about its cache outputs. When
    findings were left out for their number, every cache counts as spoken about.
    """
    nodes = {node.place: node for node in (*graph.attention, *graph.state)}
    found: set[str] = set()
    for finding in islice(findings, first, None):
        if finding.severity not in _WRONG:
            continue
        found.add(finding.name)
        node = nodes.get(finding.place.inside)
        if node is not None:
            found.update(_tensors_of(node, finding.name))
    if findings.omitted:
        for node in graph.attention:
            found.update(_caches(node))
    return frozenset(found) | undefined_tensors(graph)


def undefined_tensors(graph: Graph) -> frozenset[str]:
    """Return the names that nodes read though nothing defines them; the graph's check says so."""
    return frozenset(
        each.name
        for node in (*graph.attention, *graph.state)
        for each in node.inputs
        if each is not None and each.source is TensorSource.UNDEFINED
    )


def _tensors_of(node: GraphNode, name: str) -> Iterator[str]:
    # Names of attributes and outputs say which half of the cache they belong to.
    if name == "outputs" or name.startswith(("key_cache", "value_cache", "k_", "v_", "kv_")):
        yield from _caches(node)
    for row in operator_inputs():
        if row.name == name and row.index < len(node.inputs):
            tensor = node.inputs[row.index]
            if tensor is not None:
                yield tensor.name


def _caches(node: GraphNode) -> Iterator[str]:
    for index in _CACHES:
        if index < len(node.inputs):
            tensor = node.inputs[index]
            if tensor is not None:
                yield tensor.name
    yield from filter(None, node.outputs[1:3])
