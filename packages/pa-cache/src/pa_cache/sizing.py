"""How many blocks a pool gets: explicit, from a memory budget, or from the memory at hand."""

from __future__ import annotations

import os
from pathlib import Path

from pa_spec import EngineConfig, GroupKind, InputUnusable, StateGroup, StateManifest

from pa_cache.block_pool import MOST_BLOCKS
from pa_cache.block_table import CacheGeometry

HOST_MEMORY_SHARE = 0.5
"""Part of the available main memory that a pool of automatic size may take at most."""

DEVICE_MEMORY_SHARE = 0.9
"""The same for a device's free memory; weights are on it already, activations are not."""


def block_bytes(manifest: StateManifest, block_size: int) -> int:
    """Return the bytes of one block over all layers and caches, 0 without a paged group."""
    group = paged_group(manifest)
    if group is None:
        return 0
    kv_num_heads, head_size = group.row_shape
    width = head_size
    if group.caches_per_layer > 1:
        width += group.v_head_size or head_size
    elements = len(group.layer_ids) * block_size * kv_num_heads * width
    return elements * group.element_type.itemsize


def paged_group(manifest: StateManifest) -> StateGroup | None:
    """Return the manifest's paged_kv group.

    Raises InputUnusable when there are several (E2) or its geometry is not one.
    """
    groups = [each for each in manifest.groups if each.kind is GroupKind.PAGED_KV]
    if not groups:
        return None
    if len(groups) > 1:
        raise InputUnusable("manifest", f"{len(groups)} paged_kv groups", "exactly one (E2)")
    group = groups[0]
    if len(group.row_shape) != 2 or min(group.row_shape) < 1 or not group.layer_ids:
        raise InputUnusable(
            "manifest.paged_kv",
            f"row_shape {group.row_shape} of {len(group.layer_ids)} layers",
            "(kv_num_heads, head_size) of at least 1 each, and at least one layer",
        )
    if group.caches_per_layer not in (1, 2):
        raise InputUnusable(
            "manifest.paged_kv", f"caches_per_layer {group.caches_per_layer}", "1 or 2"
        )
    return group


def blocks_for_budget(manifest: StateManifest, block_size: int, budget_bytes: int) -> int:
    """Return how many blocks a memory budget holds, at least 1.

    Raises InputUnusable when it holds none, or when the manifest has no paged group to measure.
    """
    each = block_bytes(manifest, block_size)
    if not each:
        raise InputUnusable(
            "memory_budget_bytes", "the decoder has no paged_kv state", "give num_blocks instead"
        )
    if budget_bytes < each:
        raise InputUnusable(
            "memory_budget_bytes",
            f"{budget_bytes} B holds 0 blocks of {each} B",
            f"at least {each} B",
        )
    return min(budget_bytes // each, MOST_BLOCKS)


def plan_geometry(
    manifest: StateManifest, config: EngineConfig, context_length: int, device: str = "cpu"
) -> CacheGeometry:
    """Choose the sizes of a cache for a decoder.

    Blocks: config.num_blocks; else what config.memory_budget_bytes holds; else as many as
    max_batch_size sequences of the session limit can use, but no more than fit into
    HOST_MEMORY_SHARE or DEVICE_MEMORY_SHARE of the memory that is free on the device.

    Raises InputUnusable when no block fits, or num_blocks do not fit the budget.
    """
    if context_length < 1:
        raise InputUnusable("context_length", f"{context_length}", "an integer from 1")
    session_tokens = min(config.max_session_tokens or context_length, context_length)
    session_blocks = -(-session_tokens // config.block_size)
    num_blocks = config.num_blocks
    if num_blocks is None:
        num_blocks = _automatic_blocks(manifest, config, session_blocks, device)
    elif config.memory_budget_bytes is not None:
        _require_budget(manifest, config, num_blocks)
    return CacheGeometry(
        num_blocks,
        config.block_size,
        config.max_batch_size,
        table_columns=min(session_blocks, num_blocks),
    )


def available_bytes(device: str = "cpu") -> int:
    """Return the bytes that are free on a device: main memory, or a CUDA device's."""
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    free = _available_main_memory()
    limit = _control_group_bytes("memory.max")
    used = _control_group_bytes("memory.current")
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def _automatic_blocks(
    manifest: StateManifest, config: EngineConfig, session_blocks: int, device: str
) -> int:
    most_useful = min(config.max_batch_size * session_blocks, MOST_BLOCKS)
    if config.memory_budget_bytes is not None:
        return blocks_for_budget(manifest, config.block_size, config.memory_budget_bytes)
    each = block_bytes(manifest, config.block_size)
    if not each:
        return most_useful
    free = available_bytes(device)
    share = DEVICE_MEMORY_SHARE if device.startswith("cuda") else HOST_MEMORY_SHARE
    fitting = int(free * share) // each
    if not fitting:
        raise InputUnusable(
            f"memory of {device}",
            f"{int(free * share)} B ({share:.0%} of {free} B free) holds 0 blocks of {each} B",
            "more memory, a smaller block_size, or num_blocks",
        )
    return min(fitting, most_useful)


def _require_budget(manifest: StateManifest, config: EngineConfig, num_blocks: int) -> None:
    budget, each = config.memory_budget_bytes, block_bytes(manifest, config.block_size)
    if budget is not None and num_blocks * each > budget:
        raise InputUnusable(
            "num_blocks",
            f"{num_blocks} blocks of {each} B need {num_blocks * each} B, "
            f"memory_budget_bytes is {budget} B",
            f"at most {budget // each} blocks",
        )


def _available_main_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, amount = line.partition(":")
            if name == "MemAvailable":
                return int(amount.split()[0]) * 1024
    except OSError:
        pass  # Not Linux: all of the physical memory is the best that can be said.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _control_group_bytes(name: str) -> int | None:
    """Return a limit or use of this process's container, None where there is none."""
    try:
        text = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
