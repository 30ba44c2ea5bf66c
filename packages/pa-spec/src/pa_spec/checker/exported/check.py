"""The check of an exported folder: genai_config.json, and the graphs that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pa_spec.checker.exported.binding import bind_state, check_paged_geometry
from pa_spec.checker.exported.blame import blamed_tensors
from pa_spec.checker.exported.comparison import Spoken, compare_graph, compare_numbers
from pa_spec.checker.exported.decoder import CONFIG_FILE, Decoder, read_decoder
from pa_spec.checker.exported.feed import Feed
from pa_spec.checker.exported.fixed import check_fixed_state, check_packed_operators
from pa_spec.checker.exported.named import (
    check_named,
    check_names,
    check_slips,
    has_other_ids,
)
from pa_spec.checker.exported.pairing import pair_state, report_pairing
from pa_spec.checker.exported.reading import check_layers_read, check_places
from pa_spec.checker.exported.reference import Reference, read_reference
from pa_spec.checker.exported.section import Section
from pa_spec.checker.exported.session import check_capture, check_session, decoder_files
from pa_spec.checker.exported.state_comparison import compare_state
from pa_spec.checker.exported.vocabulary import (
    ModelNumbers,
    check_graph_numbers,
    read_numbers,
)
from pa_spec.checker.exported.window import check_rings
from pa_spec.checker.finding import Findings
from pa_spec.checker.graph.graph import Graph
from pa_spec.checker.report import CheckOptions
from pa_spec.checker.setting import check_settings, resolved_settings
from pa_spec.checker.source import read_json
from pa_spec.state import GroupKind

_OF_SHAPES = ("graph.shape_contradicts", "graph.node_refused")


@dataclass(frozen=True, slots=True)
class Export:
    """What a folder says beside its graph.

    captures: CUDA-graph capture is asked for. reference: what it is compared with, if anything.
    """

    root: Section
    decoder: Decoder
    numbers: ModelNumbers
    captures: bool
    reference: Reference | None = None


def check_exported_folder(
    folder: Path, findings: Findings, options: CheckOptions
) -> dict[str, str]:
    """Check a folder with genai_config.json; return what was looked at, in words.

    A config.json beside it, or options.reference_config, is what the graph is compared with.
    """
    document = read_json(folder / CONFIG_FILE, findings, CONFIG_FILE)
    export = None if document is None else read_export(document, findings)
    if document is None or export is None:
        return {}
    decoder, reference = export.decoder, read_reference(folder, options, findings)
    if reference is not None:
        compare_numbers(decoder, export.numbers, reference, folder)
        export = replace(export, reference=reference)
    facts = resolved_settings(document)
    files = decoder_files(decoder)
    for file in files:
        graph, blamed = _read(folder, file, decoder)
        if graph is not None:
            facts |= _counts(graph, facts)
            # A pipeline's inputs and outputs are spread over its graphs.
            if len(files) == 1 and graph.attention:
                check_graph(export, graph, blamed)
    check_slips(decoder, export.root)
    return facts


def read_export(document: Mapping[str, Any], findings: Findings) -> Export | None:
    """Read and check a configuration alone; None where it has no usable `model.decoder`."""
    root = Section(document, "", CONFIG_FILE, findings)
    check_settings(document, findings, CONFIG_FILE)
    numbers, decoder = read_numbers(root), read_decoder(root)
    if numbers is None or decoder is None:
        return None
    check_names(decoder)
    return Export(root, decoder, numbers, check_session(decoder))


def check_graph(export: Export, graph: Graph, blamed: frozenset[str]) -> None:
    """Check a configuration against the graph it names; blamed: names spoken about already."""
    decoder, numbers = export.decoder, export.numbers
    if not decoder.is_dynamic and not decoder.manifest.kinds - {GroupKind.PAGED_KV}:
        hint = export.root.hint("engine", "root")
        actual = f"none, for {len(graph.attention)} PagedAttention nodes{hint}"
        place, name = export.root.place("engine"), "dynamic_batching"
        decoder.findings.add("exported.not_dynamic", place, name, actual)
    _check_heads(decoder, graph)
    feed = Feed(decoder, graph)
    pairs = bind_state(decoder, graph, feed, blamed)
    check_paged_geometry(decoder, graph, pairs)
    check_fixed_state(decoder, pairs)
    check_packed_operators(graph, decoder)
    check_layers_read(decoder, graph, blamed)
    check_named(decoder, graph, feed, blamed | check_places(decoder, graph, feed, blamed))
    sized = check_rings(decoder, export.root, graph, blamed)
    feed.report(blamed)
    check_graph_numbers(numbers, decoder, graph, blamed)
    if export.captures:
        check_capture(decoder, graph)
    if export.reference is not None:
        spoken = Spoken(blamed, sized)
        compare_graph(decoder, numbers, graph, export.reference, spoken)
        compare_state(decoder, pairs, export.reference)


def _check_heads(decoder: Decoder, graph: Graph) -> None:
    """Report query heads of the configuration that are not the nodes', where these agree.

    A node with a violation of its own may have the wrong heads itself.
    """
    wrong = {each.place.inside for each in decoder.findings if each.place.file == graph.file}
    nodes = () if decoder.findings.omitted else graph.attention
    counts = {node.attributes.get("num_heads") for node in nodes if node.place not in wrong}
    num_heads = next(iter(counts)) if len(counts) == 1 else None
    if isinstance(num_heads, int) and decoder.num_heads not in (None, num_heads):
        name, actual = "num_attention_heads", decoder.num_heads
        place = decoder.section.place(name)
        decoder.findings.add("exported.num_heads", place, name, actual, num_heads=num_heads)


def _read(folder: Path, file: str, decoder: Decoder) -> tuple[Graph | None, frozenset[str]]:
    """Read one graph and check its nodes; return it with the names that this spoke about."""
    from pa_spec.checker.graph.node import check_nodes
    from pa_spec.checker.graph.reader import read_graph

    first = len(list(decoder.findings))
    found = Findings()
    graph = read_graph(folder / file, file, found)
    # What follows from the ids' type or rank is not repeated for the nodes that read them.
    is_other = graph is not None and has_other_ids(decoder, graph)
    decoder.findings.take(found, without=_OF_SHAPES if is_other else ())
    if graph is None:
        return None, frozenset()
    pairing = pair_state(decoder, graph)
    check_nodes(graph, decoder.findings, decoder.block_size, pairing.cache_outputs())
    crossed = report_pairing(decoder, graph, pairing, first)
    return graph, blamed_tensors(graph, decoder.findings, first) | crossed


def _counts(graph: Graph, facts: Mapping[str, str]) -> dict[str, str]:
    counts = {
        "nodes": sum(graph.operators.values()),
        "PagedAttention nodes": len(graph.attention),
        "fixed-state nodes": len(graph.state),
    }
    return {name: f"{int(facts.get(name, 0)) + count}" for name, count in counts.items()}
