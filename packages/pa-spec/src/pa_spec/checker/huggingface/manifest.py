"""The state that serving a resolved model keeps."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.checker.huggingface.field import Fields
from pa_spec.checker.meaning import LayerKind, LayerMeaning
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind, StateGroup, StateManifest


def state_manifest(
    layers: Sequence[LayerMeaning], element_type: ElementType, fields: Fields
) -> StateManifest | None:
    """Gather the layers' caches and fixed rows into groups of one shape each.

    None, after a note, when the caches have more than one shape: a manifest has one paged group.
    """
    paged: dict[tuple[int, ...], list[int]] = {}
    fixed: dict[tuple[GroupKind, tuple[int, ...], ElementType], list[int]] = {}
    for layer_id, layer in enumerate(layers):
        if layer.kv_elements:
            is_latent = layer.kind is LayerKind.LATENT_ATTENTION
            shape = (layer.kv_num_heads, layer.head_size, layer.v_head_size, 1 if is_latent else 2)
            paged.setdefault(shape, []).append(layer_id)
        for row in layer.fixed:
            fixed.setdefault((row.kind, row.row_shape, row.element_type), []).append(layer_id)
    if len(paged) > 1:
        shapes = ", ".join(f"{kv_heads} x {width}" for kv_heads, width, _, _ in sorted(paged))
        allowed = "caches of one shape in all layers"
        fields.report("config.no_manifest", "layers", f"caches of {shapes}", allowed=allowed)
        return None
    groups = [
        StateGroup(
            GroupKind.PAGED_KV,
            tuple(layer_ids),
            (kv_heads, width),
            element_type,
            caches_per_layer=caches,
            v_head_size=value_width,
        )
        for (kv_heads, width, value_width, caches), layer_ids in paged.items()
    ]
    groups += [
        StateGroup(kind, tuple(layer_ids), shape, dtype, caches_per_layer=1)
        for (kind, shape, dtype), layer_ids in fixed.items()
    ]
    return StateManifest(tuple(groups))
