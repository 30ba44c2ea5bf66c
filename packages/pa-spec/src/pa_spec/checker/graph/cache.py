"""Caches at the edge of the graph: fed from outside, updated in place, and each with one owner."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import lru_cache

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.call import inputs_by_name
from pa_spec.checker.graph.graph import Graph, GraphNode, GraphTensor, TensorSource
from pa_spec.checker.tensor_text import name_text

_OUTPUTS = {"key_cache": 1, "value_cache": 2}
_WORD = re.compile(r"[A-Za-z]+|\d+")
_MAX_NAME = 1000
_Key = tuple[tuple[str, ...], str]


class CacheBinding:
    """Checks the caches of one graph's nodes, node by node (V54, graph.cache_shared).

    crossed: nodes' places with the cache whose output another one's is, where a configuration says
    which belong together; its check reports them. None: nothing but the words of names says it.
    """

    def __init__(
        self,
        graph: Graph,
        findings: Findings,
        crossed: Container[tuple[str, str]] | None = None,
    ) -> None:
        self._graph = graph
        self._findings = findings
        self._crossed = crossed
        self._owners: dict[str, tuple[str, GraphNode]] = {}
        self._partners: dict[_Key, str] = {}
        for name in graph.outputs:
            key = _key(name)
            if key is not None:
                # Of two outputs with one key neither is known to belong to a cache.
                self._partners[key] = "" if key in self._partners else name

    def check(self, node: GraphNode, said: frozenset[str]) -> None:
        """Check that both caches are graph inputs, and their outputs those that belong to them.

        said: names that a rule about the node has spoken of.
        """
        for name, cache in _caches(node):
            if cache.source is TensorSource.UNDEFINED:
                continue
            is_fed = cache.source is TensorSource.GRAPH_INPUT
            if not is_fed and not node.depth:
                actual = (
                    f"computed by {name_text(cache.producer)}" if cache.producer else "a constant"
                )
                place = Place(self._graph.file, node.place)
                self._findings.add("V54", place, name, actual, case="not_input")
            elif is_fed and not self._is_crossed(node, name, cache, said):
                self._check_owner(node, name, cache)

    def _is_crossed(
        self, node: GraphNode, name: str, cache: GraphTensor, said: frozenset[str]
    ) -> bool:
        """Report a cache output that is not the graph output of its cache; whether it is not."""
        index = _OUTPUTS[name]
        output = node.outputs[index] if len(node.outputs) > index else None
        if output is None or node.depth or f"{name}_out" in said:
            return False
        place = Place(self._graph.file, node.place)
        values = {"cache": name_text(cache.name)}
        if output not in self._graph.outputs:
            actual = f"{name_text(output)}, which is none"
            self._findings.add("V54", place, f"{name}_out", actual, case="not_output", **values)
            return True
        if self._crossed is not None:
            return (node.place, name) in self._crossed
        wanted, found = _key(cache.name), _key(output)
        partner = self._partners.get(wanted, "") if wanted and found and wanted != found else ""
        if partner:
            values["output"] = name_text(partner)
            self._findings.add(
                "V54", place, f"{name}_out", name_text(output), case="crossed", **values
            )
        return bool(partner)

    def _check_owner(self, node: GraphNode, name: str, cache: GraphTensor) -> None:
        """Report a cache that two nodes write with different keys, or a node for both."""
        known, owner = self._owners.setdefault(cache.name, (name, node))
        if (known == name and owner is node) or (owner is not node and _same_rows(owner, node)):
            return
        other = known if owner is node else owner.place
        place = Place(self._graph.file, node.place)
        self._findings.add("graph.cache_shared", place, name, name_text(cache.name), other=other)


def _caches(node: GraphNode) -> Iterator[tuple[str, GraphTensor]]:
    inputs = inputs_by_name(node)
    return ((name, inputs[name]) for name in _OUTPUTS if name in inputs)


def _same_rows(one: GraphNode, other: GraphNode) -> bool:
    """Whether two nodes store the same keys and values: layers that share a cache."""
    first, second = (
        [each.name if each is not None else None for each in node.inputs[:3]]
        for node in (one, other)
    )
    if first[1:] == [None, None]:
        return first == second
    return first[1:] == second[1:]


@lru_cache(maxsize=4096)
def _key(name: str) -> _Key | None:
    """Return the numbers and the side of a cache's name ("past_key_values.3.value")."""
    words = _WORD.findall(name[:_MAX_NAME])
    sides = [word for word in words if word in ("key", "value")]
    numbers = tuple(word for word in words if word.isdigit())
    return (numbers, sides[-1]) if sides and numbers else None
