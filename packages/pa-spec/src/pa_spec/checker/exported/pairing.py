"""Which state of which layer each node reads and writes, told by a configuration's templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.companion import companions
from pa_spec.checker.graph.graph import Graph, GraphNode, GraphTensor, TensorSource
from pa_spec.checker.tensor_text import name_text
from pa_spec.contract.configuration import state_bindings
from pa_spec.contract.operator_table import operator_inputs

_PRESENT = {
    row.name: row.name.replace("past_", "present_", 1)
    for row in state_bindings().values()
    if row.direction == "input"
}
"""The template of the outputs that belong to the inputs of a template."""

_CACHES = (("past_key_names", "key_cache", 1), ("past_value_names", "value_cache", 2))
_STATES = ("past_state", "initial_state")
_RESULTS = ("present_state", "final_state")
_CONVOLUTION = "Conv"


@dataclass(frozen=True, slots=True)
class StateUse:
    """A node's use of one state input.

    past: the template that the node's place for it asks for. named: the one that has the input's
    name, with layer_id. name, output_name: of the operator's input and output. output: the graph
    output that the node writes, "" = none. wanted: the one that belongs to the input.
    """

    node: GraphNode
    past: str
    named: str
    layer_id: int
    name: str
    output_name: str
    cache: str
    output: str
    wanted: str

    @property
    def is_attention(self) -> bool:
        """Whether it is a cache of paged attention."""
        return any(past == self.past for past, _, _ in _CACHES)

    def names(self, decoder: Decoder) -> frozenset[str]:
        """Return every name that a finding about it is about, those of both layers."""
        found = {self.cache, self.output, self.wanted}
        for past, present in _PRESENT.items():
            template = decoder.templates.get(present)
            layer_id = template.layer_of(self.output) if template and self.output else None
            if layer_id is not None and past in decoder.templates:
                found.add(decoder.templates[past].expand(layer_id))
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Uses of state that are not as the configuration says, each in one of the two.

    crossed: their output belongs to another input. misplaced: they read as one kind what the
    configuration names another.
    """

    crossed: tuple[StateUse, ...]
    misplaced: tuple[StateUse, ...]

    def cache_outputs(self) -> frozenset[tuple[str, str]]:
        """Return the places of attention nodes and their crossed caches."""
        return frozenset((each.node.place, each.name) for each in self.crossed)


def pair_state(decoder: Decoder, graph: Graph) -> Pairing:
    """Compare what nodes read and write with the templates; nothing is reported."""
    uses = tuple(_uses(decoder, graph))
    crossed = [each for each in uses if each.output and each.output != each.wanted]
    # An output that the graph lacks is absent, and one of another rule, rather than crossed.
    crossed = [each for each in crossed if each.wanted in graph.outputs]
    crossed_nodes = {each.node.place for each in crossed}
    misplaced = (each for each in uses if each.named != each.past)
    return Pairing(
        tuple(crossed),
        tuple(each for each in misplaced if each.node.place not in crossed_nodes),
    )


def report_pairing(decoder: Decoder, graph: Graph, pairing: Pairing, first: int) -> frozenset[str]:
    """Report a pairing, each kind of mistake once; return the names that this is about.

    first: the number of the first finding about this graph; what those are about is not reported
    again.
    """
    said = _said(decoder.findings, graph, first)
    about: set[str] = set()
    crossed = [each for each in pairing.crossed if not said & _places(each)]
    for is_attention in (True, False):
        found = [each for each in crossed if each.is_attention is is_attention]
        if found:
            _report_crossed(decoder, graph, found)
    misplaced = [each for each in pairing.misplaced if not said & _places(each)]
    if misplaced:
        _report_misplaced(decoder, graph, misplaced)
    for each in (*pairing.crossed, *pairing.misplaced):
        about |= each.names(decoder)
    return frozenset(about)


def _uses(decoder: Decoder, graph: Graph) -> Iterator[StateUse]:
    indices = {row.name: row.index for row in operator_inputs()}
    for node in graph.attention:
        for past, name, output_index in _CACHES:
            use = _use(decoder, graph, node, past, (indices[name], output_index))
            if use is not None:
                yield use
    rows = {row.name: row for row in companions()}
    for node in graph.state:
        row = rows.get(node.op_type)
        inputs = [each.name for each in row.inputs] if row else []
        outputs = [each.name for each in row.outputs] if row else []
        name = next((each for each in _STATES if each in inputs), "")
        result = next((each for each in _RESULTS if each in outputs), "")
        if name and result:
            past = "past_conv_names" if _CONVOLUTION in node.op_type else "past_recurrent_names"
            edges = (inputs.index(name), outputs.index(result))
            use = _use(decoder, graph, node, past, edges)
            if use is not None:
                yield use


def _use(
    decoder: Decoder, graph: Graph, node: GraphNode, past: str, edges: tuple[int, int]
) -> StateUse | None:
    """Return what a node does with the input and output of two indices; None = unclear."""
    tensor = node.inputs[edges[0]] if len(node.inputs) > edges[0] else None
    if tensor is None or tensor.source is not TensorSource.GRAPH_INPUT or node.depth:
        return None
    named, layer_id = _owner(decoder, tensor, past)
    present = decoder.templates.get(_PRESENT.get(named, ""))
    if present is None:
        return None
    output = node.outputs[edges[1]] if len(node.outputs) > edges[1] else None
    is_output = output is not None and output in graph.outputs
    name = next((name for key, name, _ in _CACHES if key == past), past)
    return StateUse(
        node=node,
        past=past,
        named=named,
        layer_id=layer_id,
        name=name,
        output_name=f"{name}_out" if name != past else _PRESENT[past],
        cache=tensor.name,
        output=output if is_output and output is not None else "",
        wanted=present.expand(layer_id),
    )


def _owner(decoder: Decoder, tensor: GraphTensor, past: str) -> tuple[str, int]:
    """Return the template that has a tensor's name, and the layer; ("", -1) when none has."""
    # The node's own is asked first: short templates may have names in common.
    for name in sorted(_PRESENT, key=lambda each: each != past):
        template = decoder.templates.get(name)
        layer_id = template.layer_of(tensor.name) if template else None
        kind = state_bindings()[name].kind
        if layer_id is not None and decoder.manifest.owns(kind, layer_id):
            return name, layer_id
    return "", -1


def _said(findings: Findings, graph: Graph, first: int) -> frozenset[tuple[str, str]]:
    return frozenset(
        (each.place.inside, each.name)
        for index, each in enumerate(findings)
        if index >= first and each.place.file == graph.file
    )


def _places(use: StateUse) -> frozenset[tuple[str, str]]:
    return frozenset((use.node.place, name) for name in (use.name, use.output_name))


def _report_crossed(decoder: Decoder, graph: Graph, found: Sequence[StateUse]) -> None:
    first = found[0]
    place = Place(graph.file, first.node.place)
    actual = name_text(first.output) + _more(found)
    words = {"output": name_text(first.wanted), "cache": name_text(first.cache)}
    if first.is_attention:
        decoder.findings.add("V54", place, first.output_name, actual, case="crossed", **words)
    else:
        decoder.findings.add("exported.state_crossed", place, first.output_name, actual, **words)


def _report_misplaced(decoder: Decoder, graph: Graph, found: Sequence[StateUse]) -> None:
    first = found[0]
    actual = f"{name_text(first.cache)}, as {first.named} has it" + _more(found)
    place = Place(graph.file, first.node.place)
    words = {"template": first.past}
    decoder.findings.add("exported.state_misplaced", place, first.name, actual, **words)


def _more(found: Sequence[StateUse]) -> str:
    return f", and {len(found) - 1} more" if len(found) > 1 else ""
