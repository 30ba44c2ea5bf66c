"""Rules about the state that a decoder says it keeps."""

from __future__ import annotations

from pa_spec.contract.rule import rules
from pa_spec.state import GroupKind, StateGroup, StateManifest


def check_manifest(manifest: StateManifest, num_layers: int | None = None) -> None:
    """Check a decoder's manifest: exactly one paged group, and layers that are there.

    num_layers: layers of the model; None checks no upper end.

    Raises ContractViolation (V77 layer ids, V82 groups and geometry).
    """
    paged = [group for group in manifest.groups if group.kind is GroupKind.PAGED_KV]
    if len(paged) != 1:
        raise rules()["V82"].violation("state_groups", f"{len(paged)} of them", "groups")
    for group in manifest.groups:
        if not group.row_shape or min(group.row_shape) < 1 or group.caches_per_layer < 1:
            caches = f"{group.caches_per_layer} caches of rows {list(group.row_shape)}"
            raise rules()["V82"].violation("row_shape", f"{group.kind.value}: {caches}", "geometry")
        _check_layers(group, num_layers)


def _check_layers(group: StateGroup, num_layers: int | None) -> None:
    ids = group.layer_ids
    last = "the last layer" if num_layers is None else num_layers - 1
    inside = bool(ids) and min(ids) >= 0 and (num_layers is None or max(ids) < num_layers)
    if inside and len(set(ids)) == len(ids):
        return
    case = "empty" if not ids else "duplicate" if inside else "outside"
    raise rules()["V77"].violation("layer_ids", f"{group.kind.value}: {list(ids)}", case, last=last)
