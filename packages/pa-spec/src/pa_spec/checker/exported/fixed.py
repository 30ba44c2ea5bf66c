"""Fixed state of requests in a graph (V84), and operators that cannot keep it packed."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.checker.exported.binding import BoundPair
from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph
from pa_spec.checker.tensor_text import shape_text
from pa_spec.state import GroupKind

_PADDED = {
    "CausalConvWithState": "VarlenCausalConvWithState",
    "LinearAttention": "GatedDeltaNet",
}
"""Operators of padded batches, and their relatives that take the boundaries of packed rows."""


def check_fixed_state(decoder: Decoder, pairs: Sequence[BoundPair]) -> None:
    """Check the batch axis and the rows of fixed state; V80 said what a pair must share."""
    for pair in pairs:
        if pair.kind is not GroupKind.PAGED_KV:
            _check_pair(decoder, pair)


def check_packed_operators(graph: Graph, decoder: Decoder) -> None:
    """Report operators that cannot tell packed rows apart."""
    if not graph.attention:
        return
    for name, packed in _PADDED.items():
        nodes = [node for node in graph.state if node.op_type == name]
        if nodes:
            others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            place = Place(graph.file, nodes[0].place)
            actual = f"{name}{others}, whose rows are padded"
            decoder.findings.add("exported.state_not_packed", place, name, actual, packed=packed)


def _check_pair(decoder: Decoder, pair: BoundPair) -> None:
    findings, place = decoder.findings, decoder.section.place("state_groups")
    past, present = pair.past.tensor.shape, pair.present.tensor.shape
    if past is None or present is None:
        return
    if not past or isinstance(past[0], int) or isinstance(present[0], int):
        shape = past if not past or isinstance(past[0], int) else present
        name = pair.past.name if shape is past else pair.present.name
        findings.add("V84", place, name, shape_text(shape), case="batch")
    elif len(past) < 2 or not all(isinstance(each, int) and each > 0 for each in past[1:]):
        findings.add("V84", place, pair.past.name, shape_text(past), case="rows")
    elif not all(isinstance(each, int) and each > 0 for each in present[1:]):
        findings.add("V84", place, pair.present.name, shape_text(present), case="rows")
