"""The state that serving a resolved model keeps, in the kinds that this contract has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.decoder.dense import Decoder
from pa_spec.checker.meaning import LayerKind, LayerMeaning
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind, StateGroup, StateManifest

SHOWN = 6
"""Layers and shapes that a message names before it only counts them."""

CacheRow = tuple[int, int, int, int]
"""KV heads, head size, value width, caches of a layer."""


def state_manifest(
    decoder: Decoder, element_type: ElementType, fields: Fields
) -> StateManifest | None:
    """Gather the layers' caches and fixed rows into groups of one shape each.

    None, after a finding that says why, where no groups can hold them: there is exactly one paged
    group, with one row geometry (V82); Mamba has no packed operator, so its state has no kind
    (contract section 18). Layers that read another layer's cache own none.
    """
    layers = decoder.layers
    rows: dict[CacheRow, list[int]] = {}
    for index, layer in enumerate(layers):
        if layer.kv_elements:
            rows.setdefault(_cache_row(layer), []).append(index)
    case, found = _obstacle(decoder, rows)
    if case:
        fields.report("hybrid.state", "layers", found, case=case)
        return None
    (heads, head_size, v_head_size, caches), owners = next(iter(rows.items()))
    paged = StateGroup(
        GroupKind.PAGED_KV,
        tuple(owners),
        (heads, head_size),
        element_type,
        caches_per_layer=caches,
        v_head_size=v_head_size if caches == 1 else 0,
    )
    return StateManifest((paged, *_fixed_groups(layers)))


def layer_names(layers: Sequence[int]) -> str:
    """Return layers as a message names them: all of a few, else the first ones and how many."""
    listed = ", ".join(map(str, layers[:SHOWN]))
    if len(layers) > SHOWN:
        return f"layers {listed}, … ({len(layers)} in all)"
    return f"{'layer' if len(layers) == 1 else 'layers'} {listed}"


def _obstacle(decoder: Decoder, rows: Mapping[CacheRow, Sequence[int]]) -> tuple[str, str]:
    """Return the case of hybrid.state that keeps the layers out of groups, and what was found."""
    mamba = [index for index, layer in enumerate(decoder.layers) if layer.kind in _MAMBA]
    if mamba:
        return "mamba", f"Mamba state in {layer_names(mamba)}"
    if decoder.index_keys:
        return "index_keys", decoder.index_keys
    if not rows:
        return "none", "no layer that attends to a cache of its own"
    if len(rows) > 1:
        shapes = [f"{_row_text(row)} in {layer_names(found)}" for row, found in rows.items()]
        return "geometry", "; ".join(shapes[:SHOWN])
    (_, head_size, v_head_size, caches), *_ = rows
    if caches > 1 and v_head_size != head_size:
        return "value_width", f"keys of {head_size}, values of {v_head_size}"
    return "", ""


_MAMBA = (LayerKind.MAMBA, LayerKind.ATTENTION_AND_MAMBA)


def _cache_row(layer: LayerMeaning) -> CacheRow:
    caches = 1 if layer.kind is LayerKind.LATENT_ATTENTION else 2
    return layer.kv_num_heads, layer.head_size, layer.v_head_size or layer.head_size, caches


def _row_text(row: CacheRow) -> str:
    heads, head_size, _, caches = row
    return f"{caches} x [{heads}, {head_size}]"


def _fixed_groups(layers: Sequence[LayerMeaning]) -> Iterable[StateGroup]:
    owners: dict[tuple[GroupKind, tuple[int, ...], ElementType], list[int]] = {}
    for index, layer in enumerate(layers):
        for row in layer.fixed:
            owners.setdefault((row.kind, row.row_shape, row.element_type), []).append(index)
    for (kind, shape, element_type), found in owners.items():
        yield StateGroup(kind, tuple(found), shape, element_type, caches_per_layer=1)
