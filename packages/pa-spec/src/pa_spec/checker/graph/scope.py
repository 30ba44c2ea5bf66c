"""Names of a graph: who defines each, and which a node may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pa_spec.checker.graph.graph import TensorSource


class Definition(NamedTuple):
    """Who defines a name. order: index of the node that computes it, -1 = there from the start."""

    order: int
    source: TensorSource
    producer: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """One graph's names, inside those of the graphs around it.

    place: names of the nodes around it, "" = the main graph. position: index of the node in the
    parent's graph that holds this one; what the parent defines later is not visible here.
    """

    graph: Any
    place: str = ""
    parent: Scope | None = None
    position: int = 0
    depth: int = 0
    names: dict[str, Definition] = field(default_factory=dict)

    def find(self, name: str, index: int) -> Definition | None:
        """Return who defines a name that node `index` uses, whether before or after it."""
        return self.owner(name, index)[1]

    def is_visible(self, name: str, index: int) -> bool:
        """Whether a name is defined before node `index`, here or around."""
        _, found, position = self.owner(name, index)
        return found is not None and found.order < position

    def owner(self, name: str, index: int) -> tuple[Scope, Definition | None, int]:
        """Return the innermost graph that defines a name, and the user's position in it."""
        scope, position = self, index
        while name not in scope.names and scope.parent is not None:
            scope, position = scope.parent, scope.position
        return scope, scope.names.get(name), position

    def within(self, label: str) -> str:
        """Return the place of something in this graph."""
        return f"{self.place} > {label}" if self.place else label


def define(scope: Scope) -> Iterator[str]:
    """Fill in what a graph defines; yield each name that was given already."""
    graph, names = scope.graph, scope.names
    for value in graph.input:
        if value.name in names:
            yield value.name
        names[value.name] = Definition(-1, TensorSource.GRAPH_INPUT)
    stored = [tensor.name for tensor in graph.initializer]
    stored += [tensor.values.name for tensor in graph.sparse_initializer]
    seen = set()
    for name in stored:
        if name in seen:
            yield name
        seen.add(name)
        # An initializer of an input's name is that input's default: it may be fed or not.
        names[name] = Definition(-1, TensorSource.INITIALIZER)
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name in names:
                yield name
            elif name:
                names[name] = Definition(index, TensorSource.NODE, node.op_type)
    if scope.parent is not None:
        outer = scope.parent
        yield from (name for name in names if outer.find(name, scope.position) is not None)
