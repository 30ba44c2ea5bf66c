"""What would stop an engine from capturing the graph."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.call import inputs_by_name
from pa_spec.checker.graph.graph import Graph, GraphNode

_CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
# The length of an output depends on what an input holds, so the host must wait for it.
_DATA_DEPENDENT = ("Compress", "NonMaxSuppression", "NonZero", "StringSplit", "Unique")
_STANDARD = ("", "ai.onnx")


def check_capture(graph: Graph, nodes: Sequence[GraphNode], findings: Findings) -> None:
    """Report control flow, data-dependent shapes, absent bounds and packed position ids.

    Only what is certain: any other operator may have a kernel that can be captured.
    """
    if not graph.attention:
        return
    for node in nodes:
        place = Place(graph.file, node.place)
        if node.depth:
            actual = "inside a control-flow node"
            findings.add("graph.attention_in_subgraph", place, node.op_type, actual)
        if "attention_metadata" not in inputs_by_name(node):
            findings.add("graph.no_metadata", place, "attention_metadata", "none")
    if "position_ids" in graph.inputs:
        findings.add("graph.position_ids", Place(graph.file), "position_ids", "an input")
    inside = any(node.depth for node in nodes)
    for kind, operators in (
        ("graph.control_flow", () if inside else _CONTROL_FLOW),
        ("graph.data_dependent_shape", _DATA_DEPENDENT),
    ):
        for name in operators:
            count = sum(graph.operators.get((domain, name), 0) for domain in _STANDARD)
            if count:
                findings.add(kind, Place(graph.file), name, f"{count} of them")
