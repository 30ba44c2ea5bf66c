"""An exported model against what its own configuration means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isclose, sqrt
from pathlib import Path

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.reference import Reference, tokenizer_eos
from pa_spec.checker.exported.vocabulary import ModelNumbers
from pa_spec.checker.exported.window import node_by_layer, window_of
from pa_spec.checker.finding import Place
from pa_spec.checker.graph.graph import Graph, GraphNode
from pa_spec.checker.meaning import NO_WINDOW, LayerKind, LayerMeaning, ModelMeaning

_KEY_CACHE, _COS_CACHE, _HEAD_SINK = 3, 8, 11
_SCALE_TOLERANCE = 1e-3
"""Attributes are single precision, and an exporter may have gone through half precision."""


@dataclass(frozen=True, slots=True)
class LayerNode:
    """A layer of the model's configuration, and the node that computes its attention."""

    layer_id: int
    meaning: LayerMeaning
    node: GraphNode


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was reported already. names: of tensors and attributes. windows: layers by their id."""

    names: frozenset[str] = frozenset()
    windows: frozenset[int] = frozenset()


def compare_graph(
    decoder: Decoder,
    numbers: ModelNumbers,
    graph: Graph,
    reference: Reference,
    spoken: Spoken,
) -> None:
    """Report in what the graph's attention nodes differ from the configuration's layers."""
    blamed = spoken.names
    meaning = reference.meaning
    layers = [
        LayerNode(layer_id, meaning.layers[layer_id], node)
        for layer_id, node in sorted(node_by_layer(decoder, graph).items())
        if layer_id < len(meaning.layers)
        and meaning.layers[layer_id].kind in (LayerKind.ATTENTION, LayerKind.ATTENTION_AND_MAMBA)
    ]
    context = numbers.context_tokens or meaning.context_tokens
    dims = {index: rope.rotary_dim for index, rope in enumerate(meaning.ropes)}
    aspects: tuple[tuple[str, str, Callable[[LayerNode], tuple[object, object]]], ...] = (
        ("exported.heads_differ", "num_heads", lambda each: _heads(each, blamed)),
        (
            "exported.window_differs",
            "local_window_size",
            lambda each: ("", "") if each.layer_id in spoken.windows else _window(each, context),
        ),
        ("exported.scale_differs", "scale", _scale),
        ("exported.softcap_differs", "softcap", _softcap),
        ("exported.sink_differs", "head_sink", _sink),
        (
            "exported.rotary_differs",
            "do_rotary",
            partial(_rotates, may_be_elsewhere=_may_rotate(graph)),
        ),
        ("exported.rotary_differs", "rotary_interleaved", lambda each: _pairs(each, meaning)),
        ("exported.rotary_differs", "cos_cache", lambda each: _rotary(each, dims)),
    )
    for kind, name, aspect in aspects:
        if name in blamed or f"kv_{name}" in blamed:
            continue
        found: dict[tuple[object, object], list[LayerNode]] = {}
        for each in layers:
            wanted, actual = aspect(each)
            if wanted != actual:
                found.setdefault((wanted, actual), []).append(each)
        for (wanted, actual), nodes in found.items():
            place, words = Place(graph.file, nodes[0].node.place), {"wanted": wanted}
            decoder.findings.add(kind, place, name, f"{actual}{_where(nodes)}", **words)


def compare_numbers(
    decoder: Decoder, numbers: ModelNumbers, reference: Reference, folder: Path
) -> None:
    """Report in what the numbers of the two configurations differ."""
    meaning, findings, model = reference.meaning, decoder.findings, numbers.section
    layers = len(meaning.layers)
    if decoder.num_layers is not None and decoder.num_layers != layers:
        place = decoder.section.place("num_hidden_layers")
        name, actual = "num_hidden_layers", decoder.num_layers
        findings.add("exported.layers_differ", place, name, actual, wanted=layers)
    if numbers.vocab_size not in (None, meaning.vocab_size):
        place, wanted = model.place("vocab_size"), meaning.vocab_size
        findings.add(
            "exported.vocabulary_differs", place, "vocab_size", numbers.vocab_size, wanted=wanted
        )
    if numbers.context_tokens is not None and numbers.context_tokens > meaning.context_tokens:
        place, wanted = model.place("context_length"), meaning.context_tokens
        actual = numbers.context_tokens
        findings.add("exported.context_differs", place, "context_length", actual, wanted=wanted)
    if numbers.eos is not None:
        _compare_eos(numbers, reference, folder)


def _compare_eos(numbers: ModelNumbers, reference: Reference, folder: Path) -> None:
    findings, place = numbers.section.findings, numbers.section.place("eos_token_id")
    ids = frozenset(numbers.eos or ())
    wanted = {each.token_id: each.origins[0] for each in reference.meaning.eos}
    lost = sorted(wanted.keys() - ids)
    if lost:
        words = {"token_id": lost[0], "origin": wanted[lost[0]]}
        actual = _list(ids)
        findings.add("exported.eos_missing", place, "eos_token_id", actual, **words)
    added = ids - wanted.keys()
    if added:
        added -= tokenizer_eos(reference, folder)
    if added:
        words = {"wanted": _list(wanted) or "no id"}
        findings.add("exported.eos_added", place, "eos_token_id", _list(ids), **words)


def _list(ids: Sequence[int] | frozenset[int] | Mapping[int, str]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _heads(each: LayerNode, blamed: frozenset[str]) -> tuple[object, object]:
    cache = each.node.inputs[_KEY_CACHE]
    is_known = cache is not None and cache.name not in blamed
    width = _static(each.node, _KEY_CACHE, 3) if is_known else None
    given, meaning = each.node.attributes, each.meaning
    words = "{} heads, {} KV heads of width {}"
    return (
        words.format(meaning.num_heads, meaning.kv_num_heads, meaning.head_size),
        words.format(given.get("num_heads"), given.get("kv_num_heads"), width or meaning.head_size),
    )


def _window(each: LayerNode, context: int) -> tuple[object, object]:
    """Compare what is seen: a window as long as the context hides nothing."""
    if 0 < each.meaning.chunk_tokens < context:
        return f"chunks of {each.meaning.chunk_tokens}", window_of(each.node)
    wanted, actual = each.meaning.window, window_of(each.node)
    return (
        wanted if 0 < wanted < context else NO_WINDOW,
        actual if 0 < actual < context else NO_WINDOW,
    )


def _scale(each: LayerNode) -> tuple[object, object]:
    given = _number(each.node, "scale")
    width = _static(each.node, _KEY_CACHE, 3) or each.meaning.head_size
    actual = given or 1 / sqrt(max(width, 1))
    wanted = each.meaning.scale
    is_close = isclose(wanted, actual, rel_tol=_SCALE_TOLERANCE)
    return (wanted, wanted) if is_close else (f"{wanted:.6g}", f"{actual:.6g}")


def _softcap(each: LayerNode) -> tuple[object, object]:
    wanted, actual = each.meaning.softcap, _number(each.node, "softcap")
    is_close = isclose(wanted, actual, rel_tol=_SCALE_TOLERANCE, abs_tol=1e-9)
    return (wanted, wanted) if is_close else (f"{wanted:g}", f"{actual:g}")


def _sink(each: LayerNode) -> tuple[object, object]:
    words = {True: "an input", False: "absent"}
    has_sink = len(each.node.inputs) > _HEAD_SINK and each.node.inputs[_HEAD_SINK] is not None
    return words[each.meaning.has_sink], words[has_sink]


def _rotates(each: LayerNode, *, may_be_elsewhere: bool) -> tuple[object, object]:
    """Compare whether positions are rotated, where no other node can do it for this one."""
    wanted, actual = each.meaning.rope is not None, each.node.attributes.get("do_rotary") == 1
    if wanted and not actual and may_be_elsewhere:
        return "", ""
    return int(wanted), int(actual)


def _may_rotate(graph: Graph) -> bool:
    """Return whether operators may rotate before attention, or positions come from outside."""
    names = [name for _, name in graph.operators]
    return (
        any("Rotary" in name or name in ("Sin", "Cos") for name in names)
        or bool(graph.functions)
        or any("position" in name for name in graph.inputs)
    )


def _pairs(each: LayerNode, meaning: ModelMeaning) -> tuple[object, object]:
    """Compare which channels are rotated together: neighbours (1) or halves (0)."""
    if each.meaning.rope is None or each.node.attributes.get("do_rotary") != 1:
        return "", ""
    wanted = meaning.ropes[each.meaning.rope].interleaved
    return int(wanted), int(each.node.attributes.get("rotary_interleaved") == 1)


def _rotary(each: LayerNode, dims: Mapping[int, int]) -> tuple[object, object]:
    """Compare the rotated channels, where the node rotates and the table's width is known."""
    if each.meaning.rope is None or each.node.attributes.get("do_rotary") != 1:
        return "", ""
    columns = _static(each.node, _COS_CACHE, 1)
    wanted = dims[each.meaning.rope] // 2
    return (wanted, wanted) if columns is None else (f"{wanted} columns", f"{columns} columns")


def _number(node: GraphNode, name: str) -> float:
    value = node.attributes.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _static(node: GraphNode, index: int, axis: int) -> int | None:
    tensor = node.inputs[index] if index < len(node.inputs) else None
    shape = None if tensor is None else tensor.tensor.shape
    extent = shape[axis] if shape is not None and len(shape) > axis else None
    return extent if isinstance(extent, int) else None


def _where(nodes: Sequence[LayerNode]) -> str:
    ids = ", ".join(str(each.layer_id) for each in nodes[:10])
    more = f" and {len(nodes) - 10} more" if len(nodes) > 10 else ""
    return f" in layer{'s' if len(nodes) > 1 else ''} {ids}{more}"
