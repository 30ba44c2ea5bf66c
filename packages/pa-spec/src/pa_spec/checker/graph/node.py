"""Checks the PagedAttention nodes of a graph against the contract."""

from __future__ import annotations

from collections.abc import Container, Hashable

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.attribute import read_attributes, report_newer_scheme
from pa_spec.checker.graph.blame import mistakes
from pa_spec.checker.graph.cache import CacheBinding
from pa_spec.checker.graph.call import (
    NodeCall,
    in_symbols,
    inputs_by_name,
    node_call,
    report_other_types,
)
from pa_spec.checker.graph.capture import check_capture
from pa_spec.checker.graph.companion import MICROSOFT
from pa_spec.checker.graph.graph import Graph, GraphNode, TensorSource
from pa_spec.checker.graph.tensor import contradict
from pa_spec.checker.graph.walk import ATTENTION
from pa_spec.checker.tensor_text import name_text, tensor_text
from pa_spec.contract.operator_table import operator_inputs
from pa_spec.errors import ContractViolation
from pa_spec.inference import SymbolicCall, infer_outputs

_ATTENTIONS = ("GroupQueryAttention", "MultiHeadAttention", "Attention", "SparseAttention")
MAX_FAULTY_NODES = 1000
"""Nodes with findings after which the rest is left: no model has as many layers."""

_MOST_NAMED = 5
_HEADS = frozenset(("num_heads", "kv_num_heads"))


def check_nodes(
    graph: Graph,
    findings: Findings,
    block_size: int | None,
    crossed: Container[tuple[str, str]] | None = None,
) -> None:
    """Check every PagedAttention node, and what they need of the graph around them.

    block_size: what a configuration says a block holds, None = unknown. crossed: as CacheBinding
    takes it.
    """
    _check_model(graph, findings)
    checked = []
    binding = CacheBinding(graph, findings, crossed)
    clean: set[Hashable] = set()
    faulty = 0
    for node in graph.attention:
        place = Place(graph.file, node.place)
        if node.domain != MICROSOFT:
            actual = repr(name_text(node.domain)) if node.domain else "ONNX's own domain"
            findings.add("graph.wrong_domain", place, ATTENTION, actual)
            continue
        # Layers are mostly alike: what one has been cleared of, its likes need not be asked again.
        likeness = _likeness(node)
        said: frozenset[str] = frozenset()
        if likeness not in clean:
            if faulty == MAX_FAULTY_NODES:
                findings.add("graph.unchecked", place, ATTENTION, "not checked", most=faulty)
                break
            before = findings.total
            is_newer = report_newer_scheme(node, place, findings)
            said = frozenset() if is_newer else _check_node(graph, node, findings, block_size)
            if findings.total == before:
                clean.add(likeness)
            else:
                faulty += 1
            if is_newer:
                continue
        binding.check(node, said)
        checked.append(node)
    check_capture(graph, checked, findings)


def _likeness(node: GraphNode) -> Hashable:
    """Return everything of a node that a judgement depends on, except its place."""
    return (
        tuple(node.attributes.items()),
        tuple(each and (each.tensor, each.source) for each in node.inputs),
        tuple(each is not None for each in node.outputs),
        node.declared,
        node.repeated,
    )


def _check_model(graph: Graph, findings: Findings) -> None:
    """Report a model without the operator, and one that does not import its domain."""
    place = Place(graph.file)
    if not graph.attention and not graph.functions:
        counts = {kind: count for (_, kind), count in graph.operators.items()}
        others = [f"{counts[name]} {name}" for name in _ATTENTIONS if name in counts]
        findings.add("graph.no_attention", place, ATTENTION, ", ".join(others) or "none")
    for domain in sorted({domain for domain, _ in graph.operators}):
        version = graph.opsets.get(domain, graph.opsets.get("ai.onnx") if not domain else None)
        if domain == MICROSOFT and version != 1:
            actual = "not imported" if version is None else f"version {version}"
            findings.add("graph.opset", place, MICROSOFT, actual, case="microsoft")
        elif version is None:
            name = name_text(domain) or "ONNX's own domain"
            findings.add("graph.opset", place, name, "not imported", case="other")


def _check_node(
    graph: Graph, node: GraphNode, findings: Findings, block_size: int | None
) -> frozenset[str]:
    """Check one node by itself; return the names that rules about it spoke of."""
    place = Place(graph.file, node.place)
    if len(node.inputs) > len(operator_inputs()):
        most, count = len(operator_inputs()), len(node.inputs)
        findings.add("graph.too_many_inputs", place, "inputs", count, most=most)
    attributes, unread = read_attributes(node, place, findings)
    call = node_call(node, attributes, block_size)
    report_other_types(call, place, findings)
    names = tuple(each is not None for each in node.outputs)
    found: tuple[ContractViolation, ...] = ()
    if not unread & _HEADS:
        found = mistakes(call.signature, names)
    found = tuple(each for each in found if each.name not in unread)
    for violation in found:
        findings.violation(in_symbols(violation, call), place)
    said = frozenset(each.name for each in found)
    _check_missing(node, place, findings)
    _check_metadata(node, place, findings)
    if not found and not unread:
        _check_declared(node, call, place, findings)
        _note_unknown(graph, call, place, findings)
    return said


def _note_unknown(graph: Graph, call: NodeCall, place: Place, findings: Findings) -> None:
    """Say which rules were decided on an assumption, unless a finding explains it already."""
    if not call.undecided or not graph.is_sound:
        return
    actual = ", ".join(call.undecided[:_MOST_NAMED])
    more = len(call.undecided) - _MOST_NAMED
    actual += f" and {more} more" if more > 0 else ""
    findings.add("graph.shape_unknown", place, "inputs", f"unknown: {actual}")


def _check_missing(node: GraphNode, place: Place, findings: Findings) -> None:
    """Report required inputs that are absent."""
    present = inputs_by_name(node)
    for each in operator_inputs():
        if each.presence == "required" and each.name not in present:
            findings.add("graph.missing_input", place, each.name, "none")


def _check_metadata(node: GraphNode, place: Place, findings: Findings) -> None:
    """Report bounds that the host does not feed: a captured graph cannot compute them for it."""
    metadata = inputs_by_name(node).get("attention_metadata")
    if metadata is None:
        return
    actual = {
        TensorSource.NODE: f"computed by {name_text(metadata.producer)}",
        TensorSource.INITIALIZER: "a constant",
    }.get(metadata.source)
    if actual:
        findings.add("graph.metadata_not_input", place, "attention_metadata", actual)


def _check_declared(node: GraphNode, call: NodeCall, place: Place, findings: Findings) -> None:
    """Compare what the file says of attention's result and scores with what they will be."""
    attributes = call.signature.attributes
    symbolic = SymbolicCall(attributes, call.symbolic_inputs())
    names = tuple(each is not None for each in node.outputs)
    try:
        inferred = infer_outputs(symbolic, names)
    except ContractViolation:
        return
    for index in (0, 3):
        if index >= len(inferred) or index >= len(node.declared):
            continue
        declared, expected = node.declared[index], inferred[index]
        if declared is not None and expected is not None and contradict(declared, expected):
            name, actual = name_text(node.outputs[index] or ""), tensor_text(declared)
            values = {"inferred": tensor_text(expected)}
            findings.add("graph.shape_contradicts", place, name, actual, **values)
