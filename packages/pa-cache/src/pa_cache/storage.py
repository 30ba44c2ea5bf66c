"""The tensors that hold keys and values; the only module that needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pa_spec import DecoderState, ElementType, InputUnusable, PagedLayer, StateManifest

from pa_cache.sizing import block_bytes, paged_group

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {
    ElementType.FLOAT32: "float32",
    ElementType.FLOAT16: "float16",
    ElementType.BFLOAT16: "bfloat16",
    ElementType.FLOAT8E4M3FN: "float8_e4m3fn",
    ElementType.INT8: "int8",
    ElementType.UINT8: "uint8",
}


def allocate_state(
    manifest: StateManifest, num_blocks: int, block_size: int, device: str = "cpu"
) -> DecoderState[torch.Tensor] | None:
    """Allocate the cache tensors of a decoder; None when it has no paged_kv group.

    Each layer gets key [N, S, K, D] and, unless it keeps one cache only, value [N, S, K, Dv].
    They are not cleared: a slot is read only after it was written.

    Raises InputUnusable when the memory does not suffice or the element type is no cache's.
    """
    import torch

    group = paged_group(manifest)
    if group is None:
        return None
    name = _TORCH_NAMES.get(group.element_type)
    if name is None:
        allowed = ", ".join(each.value for each in _TORCH_NAMES)
        raise InputUnusable("manifest.paged_kv", f"cache of {group.element_type.value}", allowed)
    dtype: torch.dtype = getattr(torch, name)
    kv_num_heads, head_size = group.row_shape
    shape = (num_blocks, block_size, kv_num_heads)
    v_head_size = group.v_head_size or head_size

    def empty(width: int) -> torch.Tensor:
        return torch.empty((*shape, width), dtype=dtype, device=device)

    layers: dict[int, PagedLayer[torch.Tensor]] = {}
    try:
        for layer_id in group.layer_ids:
            value = empty(v_head_size) if group.caches_per_layer > 1 else None
            layers[layer_id] = PagedLayer(empty(head_size), value)
    except (RuntimeError, MemoryError) as error:
        # On a CPU torch reports exhausted memory as a plain RuntimeError.
        needed = num_blocks * block_bytes(manifest, block_size)
        raise InputUnusable(
            "num_blocks",
            f"{num_blocks} blocks need {needed} B on {device}, which could not be had",
            "fewer blocks, a smaller memory_budget_bytes, or a device with more memory",
        ) from error
    return DecoderState(layers, block_size, num_blocks)
