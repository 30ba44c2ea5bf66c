"""What the attention nodes read: each layer's caches, each tensor of a step in its place."""

from __future__ import annotations

from collections.abc import Mapping

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.feed import Feed
from pa_spec.checker.exported.named import name_of
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph, TensorSource
from pa_spec.contract.operator_table import operator_inputs
from pa_spec.state import GroupKind

_INPUT_OF = {
    "cumulative_sequence_lengths": "cumulative_sequence_length",
    "past_sequence_lengths": "past_seqlens",
    "block_table": "block_table",
    "block_table_windowed": "block_table",
    "attention_metadata": "attention_metadata",
}
"""The input of the operator that a tensor of a step is."""

_KEY_CACHE = 3
_MOST_NAMED = 10


def check_places(
    decoder: Decoder, graph: Graph, feed: Feed, blamed: frozenset[str]
) -> frozenset[str]:
    """Report tensors of a step that all nodes read as another input; return their names.

    feed: the tensor that was meant leaves it. blamed: names that were spoken about already. Two
    that are exchanged are one mistake.
    """
    read = _inputs_read(graph)
    exchanged: set[tuple[str, str]] = set()
    found: set[str] = set()
    for key, wanted in _INPUT_OF.items():
        name = name_of(decoder, key)
        places = read.get(name, ())
        if not places or wanted in places or name in blamed:
            continue
        found.add(name)
        meant = {other for other, others in read.items() if wanted in others}
        for other in meant:
            feed.take(other)
        if meant & blamed:
            continue
        if (places[0], wanted) in exchanged:
            continue
        exchanged.add((wanted, places[0]))
        place, actual = decoder.inputs.place(key), f"{name}, which they read as {places[0]}"
        decoder.findings.add("exported.input_exchanged", place, key, actual, wanted=wanted)
    return frozenset(found)


def check_layers_read(decoder: Decoder, graph: Graph, blamed: frozenset[str]) -> None:
    """Report layers whose caches the graph has and no attention node reads.

    A node whose key cache is absent or computed was reported, and may be a missing layer's.
    """
    past = decoder.templates.get("past_key_names")
    if past is None or graph.functions or not graph.is_sound:
        return
    caches = [
        node.inputs[_KEY_CACHE] if len(node.inputs) > _KEY_CACHE else None
        for node in graph.attention
    ]
    read = {each.name for each in caches if each and each.source is TensorSource.GRAPH_INPUT}
    unclear = sum(each is None or past.layer_of(each.name) is None for each in caches)
    values = decoder.templates.get("past_value_names")
    layers = decoder.manifest.layers.get(GroupKind.PAGED_KV, ())
    unread = []
    for layer_id in layers[: len(graph.inputs) + 1]:
        name = past.expand(layer_id)
        names = {name, values.expand(layer_id)} if values else {name}
        if name in graph.inputs and not names & read and blamed.isdisjoint(names):
            unread.append(layer_id)
    if len(unread) > unclear:
        place, name = Place(graph.file), "PagedAttention"
        more = f" and {len(unread) - _MOST_NAMED} more" if len(unread) > _MOST_NAMED else ""
        actual = f"none for {', '.join(map(str, unread[:_MOST_NAMED]))}{more}"
        decoder.findings.add("exported.layer_unread", place, name, actual)


def _inputs_read(graph: Graph) -> Mapping[str, tuple[str, ...]]:
    """Return as which inputs of the operator nodes read each input of the graph."""
    names = {row.index: row.name for row in operator_inputs()}
    found: dict[str, dict[str, None]] = {}
    for node in graph.attention:
        for index, tensor in enumerate(node.inputs):
            if tensor is not None and tensor.source is TensorSource.GRAPH_INPUT:
                found.setdefault(tensor.name, {})[names.get(index, "")] = None
    return {name: tuple(each) for name, each in found.items()}
