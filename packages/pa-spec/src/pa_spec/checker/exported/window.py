"""Sliding windows that are kept in rings of blocks (V85), and the nodes that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.named import name_of
from pa_spec.checker.exported.section import INT32_MAX, Section, as_int
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph, GraphNode
from pa_spec.checker.setting import setting_value
from pa_spec.checker.text import shown
from pa_spec.state import GroupKind

_KEY = "sliding_window"
_BLOCK_TABLE = 7
_KEY_CACHE = 3


@dataclass(frozen=True, slots=True)
class Ring:
    """Layers whose blocks are reused. window_size: None where it was reported as unusable."""

    layers: frozenset[int]
    window_size: int | None


def node_by_layer(decoder: Decoder, graph: Graph) -> dict[int, GraphNode]:
    """Return the attention node of each layer, told by the name of its key cache."""
    template = decoder.templates.get("past_key_names")
    found: dict[int, GraphNode] = {}
    for node in graph.attention:
        cache = node.inputs[_KEY_CACHE] if len(node.inputs) > _KEY_CACHE else None
        layer_id = None if cache is None or not template else template.layer_of(cache.name)
        if layer_id is not None:
            found[layer_id] = node
    return found


def check_rings(
    decoder: Decoder, root: Section, graph: Graph, blamed: frozenset[str]
) -> frozenset[int]:
    """Check what rings need; they are on when the graph takes a table of window blocks.

    Returns the layers whose windows were reported.
    """
    windowed = name_of(decoder, "block_table_windowed")
    if windowed not in graph.inputs:
        if decoder.window is not None:
            _check_unused(decoder, decoder.window)
        return frozenset()
    if not decoder.section.has(_KEY):
        place = decoder.section.place(_KEY)
        decoder.findings.add("V85", place, _KEY, "no such key", case="window")
        return frozenset()
    if decoder.window is None:
        return frozenset()
    ring = _read_ring(decoder, decoder.window)
    _check_chunk(decoder, root)
    if ring is None:
        return frozenset()
    nodes = node_by_layer(decoder, graph)
    if windowed not in blamed:
        _check_tables(decoder, graph, nodes, ring)
    return _check_windows(decoder, graph, nodes, ring)


def _check_unused(decoder: Decoder, section: Section) -> None:
    """Check the values of an object without rings: no layers, and the size that means none."""
    size = as_int(section.values.get("window_size"))
    layers = section.items("layers")
    if size is not None and (size < 0 or (size == 0 and layers)):
        place = section.place("window_size")
        decoder.findings.add("V85", place, "window_size", size, case="window")
    elif size != 0:
        section.integer("window_size")


def _check_chunk(decoder: Decoder, root: Section) -> None:
    chunk = setting_value(root.values, "search.chunk_size")
    if chunk is None or chunk <= 0:
        search = root.values.get("search")
        given = search.get("chunk_size") if isinstance(search, dict) else None
        if given is None or as_int(given) is not None:
            actual = "no such key" if given is None else shown(given)
            place = root.place("search.chunk_size")
            decoder.findings.add("V85", place, "chunk_size", actual, case="chunk")
    caching = setting_value(root.values, "engine.dynamic_batching.prefix_caching")
    engine = root.values.get("engine")
    dynamic = engine.get("dynamic_batching") if isinstance(engine, dict) else None
    if caching is True and isinstance(dynamic, dict) and "prefix_caching" in dynamic:
        place = root.place("engine.dynamic_batching.prefix_caching")
        decoder.findings.add("exported.prefix_caching", place, "prefix_caching", "true")


def _read_ring(decoder: Decoder, section: Section) -> Ring | None:
    findings = decoder.findings
    size = as_int(section.values.get("window_size"))
    if size is None or not 1 <= size <= INT32_MAX:
        given = section.has("window_size")
        actual = shown(section.values["window_size"]) if given else "no such key"
        findings.add("V85", section.place("window_size"), "window_size", actual, case="window")
        size = None
    layers = _read_layers(decoder, section)
    return None if layers is None else Ring(layers, size)


def _read_layers(decoder: Decoder, section: Section) -> frozenset[int] | None:
    findings, place = decoder.findings, section.place("layers")
    values = section.items("layers") if section.has("layers") else []
    if values is None:
        return None
    ids = [as_int(each) for each in values]
    if None in ids:
        section.wrong("layers", "ids")
        return None
    known = [each for each in ids if each is not None]
    last = INT32_MAX if decoder.num_layers is None else decoder.num_layers - 1
    outside = [each for each in known if not 0 <= each <= last]
    if outside:
        findings.add("V85", place, "layers", shown(outside[0]), case="outside", last=last)
        return None
    manifest, kind = decoder.manifest, GroupKind.PAGED_KV
    unpaged = [each for each in known if not manifest.owns(kind, each)]
    if unpaged and manifest.is_sound:
        findings.add("V85", place, "layers", shown(unpaged[0]), case="unpaged")
        return None
    if known and len(set(known) - set(unpaged)) == manifest.num_layers(kind):
        findings.add("V85", place, "layers", f"all {len(set(known))} of them", case="full")
        return None
    return frozenset(known)


def _check_tables(decoder: Decoder, graph: Graph, nodes: dict[int, GraphNode], ring: Ring) -> None:
    """Check that ring layers read the table of window blocks, and no others do."""
    names = {
        True: name_of(decoder, "block_table_windowed"),
        False: name_of(decoder, "block_table"),
    }
    wrong: dict[str, list[tuple[int, GraphNode]]] = {}
    for layer_id, node in nodes.items():
        table = node.inputs[_BLOCK_TABLE] if len(node.inputs) > _BLOCK_TABLE else None
        wanted = names[layer_id in ring.layers]
        if table is not None and table.name in names.values() and table.name != wanted:
            wrong.setdefault(wanted, []).append((layer_id, node))
    for wanted, found in wrong.items():
        place = Place(graph.file, found[0][1].place)
        actual = f"{names[wanted == names[False]]}{_layers(found)}"
        decoder.findings.add("exported.ring_table", place, "block_table", actual, table=wanted)


def _check_windows(
    decoder: Decoder, graph: Graph, nodes: dict[int, GraphNode], ring: Ring
) -> frozenset[int]:
    """Check that ring layers see exactly the window that their rings are sized for."""
    if ring.window_size is None:
        return frozenset()
    wrong = [
        (layer_id, node)
        for layer_id, node in nodes.items()
        if layer_id in ring.layers and window_of(node) != ring.window_size
    ]
    if wrong:
        place, node = Place(graph.file, wrong[0][1].place), wrong[0][1]
        actual = f"{window_of(node)}{_layers(wrong)}"
        words = {"window": ring.window_size}
        decoder.findings.add("exported.ring_window", place, "local_window_size", actual, **words)
    return frozenset(layer_id for layer_id, _ in wrong)


def window_of(node: GraphNode) -> int:
    """Return the window of a node, -1 when it has none."""
    value = node.attributes.get("local_window_size", -1)
    return value if isinstance(value, int) else -1


def _layers(found: Sequence[tuple[int, GraphNode]]) -> str:
    ids = ", ".join(str(layer_id) for layer_id, _ in found[:10])
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return f" in layer{'s' if len(found) > 1 else ''} {ids}{more}"
