"""What the checker needs of an ONNX graph, without its weights and without the onnx library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pa_spec.inference.shape import SymbolicTensor


class TensorSource(Enum):
    """Where a node's input comes from."""

    GRAPH_INPUT = "graph_input"
    INITIALIZER = "initializer"
    NODE = "node"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A named tensor at a node or at the graph's edge.

    producer: op type of the node that computes it, "" when no node does.
    """

    name: str
    tensor: SymbolicTensor
    source: TensorSource
    producer: str = ""


AttributeValue = int | float | str | bytes | tuple[int, ...] | tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of an operator that the checker looks into.

    place: its name with those of the subgraphs around it; never empty (an unnamed node is called
    after its first output). inputs and outputs keep their indices; None = absent or "".
    depth: 0 in the main graph, 1 in a branch or loop body of it. declared: what the file itself
    says of each output, None where it says nothing. repeated: attributes that are given twice.
    """

    place: str
    op_type: str
    domain: str
    attributes: Mapping[str, AttributeValue]
    inputs: tuple[GraphTensor | None, ...]
    outputs: tuple[str | None, ...]
    depth: int = 0
    declared: tuple[SymbolicTensor | None, ...] = ()
    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Graph:
    """One ONNX file.

    file: as findings call it. inputs and outputs: of the main graph, in order, without inputs that
    initializers supply. attention: the PagedAttention nodes in order. state: nodes that keep fixed
    state (VarlenCausalConvWithState, GatedDeltaNet and relatives). operators: how many nodes of
    each (domain, op type) there are, subgraphs included. opsets: version by domain. functions:
    PagedAttention nodes inside local functions. is_sound: names and shapes agree; where they do
    not, that was reported, and what depends on them is not reported again.
    """

    file: str
    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]
    attention: tuple[GraphNode, ...]
    state: tuple[GraphNode, ...] = ()
    operators: Mapping[tuple[str, str], int] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    functions: int = 0
    is_sound: bool = True
