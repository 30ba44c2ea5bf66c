"""The resolved meaning of a model's configuration, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pa_spec.checker.meaning import NO_WINDOW, LayerMeaning, ModelMeaning, RopeMeaning
from pa_spec.checker.report import Report
from pa_spec.checker.text import ranges
from pa_spec.state import StateGroup

Row = tuple[str, str]


def meaning_lines(meaning: ModelMeaning) -> list[Row]:
    """Return what a configuration resolves to as rows of a label and a text."""
    layers = meaning.layers
    dtype = meaning.element_type.value if meaning.element_type else "not said"
    rows = [
        ("model", f"{meaning.model_type}, {meaning.architecture}, family {meaning.family}"),
        ("element type", f"{dtype}, caches {meaning.cache_element_type.value}"),
        ("context", f"{meaning.context_tokens:,} tokens"),
        ("vocabulary", f"{meaning.vocab_size:,}, hidden size {meaning.hidden_size:,}"),
        ("tied embeddings", "yes" if meaning.has_tied_embeddings else "no"),
        *_grouped("layers", layers, lambda layer: layer.kind.value.replace("_", " ")),
        *_grouped("heads", layers, _heads),
        *_grouped("logit scale", layers, _scale),
        *_grouped("window", layers, _window),
        *_grouped("beside", layers, _extras),
        *_grouped("rope", layers, lambda layer: _rope_of(meaning, layer)),
    ]
    if meaning.final_softcap:
        rows.append(("final softcap", f"{meaning.final_softcap:g}"))
    rows += [("state group", _state_group(each)) for each in _groups(meaning)]
    rows += [
        ("end of turn", f"{each.token_id} ({', '.join(each.origins)})") for each in meaning.eos
    ]
    if not meaning.eos:
        rows.append(("end of turn", "no id in the files"))
    if meaning.weight_bytes is not None:
        rows.append(("weight bytes", f"{meaning.weight_bytes:,}"))
    rows.append(("KV bytes a token", f"{meaning.kv_bytes_per_token:,}"))
    rows.append(("fixed bytes a request", f"{meaning.fixed_bytes_per_request:,}"))
    for name, reason in (meaning.backends or {}).items():
        rows.append((f"backend {name}", reason or "serves it"))
    return rows


def capacity_lines(report: Report) -> list[Row]:
    """Return how many sequences fit as rows, none where it was not asked for."""
    found, meaning = report.capacity, report.meaning
    if found is None or meaning is None:
        return []
    beyond = " (beyond the context)" if found.length_tokens > meaning.context_tokens else ""
    asked = f"{found.length_tokens:,} tokens{beyond} in {found.memory_bytes:,} bytes"
    weights = f"{found.weight_bytes:,} bytes of" if found.weight_bytes else "unknown"
    if found.obstacle:
        return [("sequences that fit", f"none of {asked}: {found.obstacle}")]
    if not found.full.total_bytes:
        return [("sequences that fit", f"any number of {asked}: none keeps anything")]
    fit = f"{found.sequences:,} of {asked}, beside {weights} weights"
    rows = [("sequences that fit", fit)]
    if found.ring != found.full:
        rows.append(("", f"{found.ring_sequences:,} if windowed layers kept only their window"))
    return rows


def _grouped(
    label: str, layers: Sequence[LayerMeaning], text_of: Callable[[LayerMeaning], str]
) -> list[Row]:
    """Return one row for each text, with the layers that it is about; "" says nothing."""
    found: dict[str, list[int]] = {}
    for index, layer in enumerate(layers):
        found.setdefault(text_of(layer), []).append(index)
    rows: list[Row] = []
    for text, indices in found.items():
        if text:
            is_all = len(indices) == len(layers)
            where = f"all {len(layers)} layers" if is_all else _layers(indices)
            rows.append((label if not rows else "", f"{text} in {where}"))
    return rows


def _heads(layer: LayerMeaning) -> str:
    if not layer.num_heads:
        return ""
    width = f"{layer.head_size}"
    if layer.v_head_size not in {0, layer.head_size}:
        width += f", values of {layer.v_head_size}"
    return f"{layer.num_heads} query, {layer.kv_num_heads} key and value, of {width}"


def _scale(layer: LayerMeaning) -> str:
    if not layer.num_heads:
        return ""
    return f"{layer.scale:g}" + (f", softcap {layer.softcap:g}" if layer.softcap else "")


def _window(layer: LayerMeaning) -> str:
    if not layer.num_heads:
        return ""
    if layer.chunk_tokens:
        return f"its chunk of {layer.chunk_tokens:,} tokens"
    return "every earlier token" if layer.window == NO_WINDOW else f"{layer.window:,} tokens"


def _extras(layer: LayerMeaning) -> str:
    words = []
    if layer.has_qk_norm:
        words.append("QK norm")
    if layer.has_sink:
        words.append("sinks")
    if layer.index_key_size:
        words.append(f"index keys of {layer.index_key_size}")
    if layer.shares_cache_of is not None:
        words.append(f"the cache of layer {layer.shares_cache_of}")
    return ", ".join(words)


def _rope_of(meaning: ModelMeaning, layer: LayerMeaning) -> str:
    if not layer.num_heads:
        return ""
    return "none" if layer.rope is None else _rope(meaning.ropes[layer.rope], layer)


def _rope(rope: RopeMeaning, layer: LayerMeaning) -> str:
    words = [f"{rope.kind}, theta {rope.theta:.10g}"]
    if rope.factor != 1.0:
        words.append(f"factor {rope.factor:g}")
    if rope.rotary_dim != layer.head_size:
        words.append(f"{rope.rotary_dim} channels")
    if rope.interleaved:
        words.append("interleaved")
    if rope.original_tokens != rope.trained_tokens:
        words.append(f"stretched from {rope.original_tokens:,} tokens")
    if rope.sections:
        words.append(f"sections {rope.sections}")
    given = [(key, value) for key, value in rope.parameters if value is not None]
    words += [f"{key} {_parameter(value)}" for key, value in given]
    return ", ".join(words)


def _parameter(value: object) -> str:
    if isinstance(value, tuple):
        return f"({len(value)} numbers from {min(value):g} to {max(value):g})" if value else "()"
    return f"{value:g}" if isinstance(value, float) else f"{value}".lower()


def _groups(meaning: ModelMeaning) -> tuple[StateGroup, ...]:
    return meaning.manifest.groups if meaning.manifest else ()


def _state_group(group: StateGroup) -> str:
    each = "x".join(map(str, group.row_shape))
    caches = f"{group.caches_per_layer} x " if group.caches_per_layer > 1 else ""
    kind, dtype = group.kind.value, group.element_type.value
    return f"{kind}: {caches}[{each}] {dtype} in {_layers(group.layer_ids)}"


def _layers(indices: Sequence[int]) -> str:
    return f"layer{'s' if len(indices) > 1 else ''} {ranges(indices)}"
