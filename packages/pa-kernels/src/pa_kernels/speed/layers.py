"""The tensors of a workload: layers that differ in their caches only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from pa_spec import PagedAttentionInputs
from torch import Tensor

from pa_kernels.speed.case import Case

_ASSUMED_CACHE_BYTES = 32 << 20
_ROTATION = 4
"""How often the last-level cache fits into what other layers' calls touch between two of one."""
_ALONE = 16
"""A layer this many times the last-level cache leaves nothing of itself there: it stands alone."""
_PATTERN = 1 << 20


def last_level_cache_bytes() -> int:
    """Return the size of the largest cache that Linux names, or an assumption of 32 MiB."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    found = [path.read_text().strip() for path in folder.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    known = [int(text[:-1]) * units[text[-1]] for text in found if text[-1:] in units]
    return max(known, default=_ASSUMED_CACHE_BYTES)


def num_layers(case: Case, cache_bytes: int) -> int:
    """Return how many layers a workload rotates over: no more than leave the CPU's cache."""
    if case.pool_bytes >= _ALONE * cache_bytes:
        return 1
    return 1 + -(-_ROTATION * cache_bytes // case.pool_bytes)


def make_layers(case: Case, count: int) -> tuple[list[PagedAttentionInputs[Tensor]], list[Tensor]]:
    """Return the layers' inputs, and each layer's caches as one int64 vector to read."""
    num_blocks = case.rows * case.columns
    tokens, kv_width = case.rows * case.new, case.kv_num_heads * case.head_size
    query = torch.randn(tokens, case.num_heads * case.head_size).to(case.dtype)
    key, value = (torch.randn(tokens, kv_width).to(case.dtype) for _ in range(2))
    is_latent = case.caches == 1
    scales = [_scale(case) for _ in range(case.caches)]
    rest: dict[str, Any] = {
        "cumulative_sequence_length": torch.arange(case.rows + 1, dtype=torch.int32) * case.new,
        "past_seqlens": torch.full((case.rows,), case.past, dtype=torch.int32),
        "block_table": torch.randperm(num_blocks).int().reshape(case.rows, case.columns),
        "k_scale": scales[0],
        "v_scale": None if is_latent else scales[1],
    }
    shape = (case.caches, num_blocks, case.block_size, case.kv_num_heads, case.head_size)
    layers, memory = [], []
    for _ in range(count):
        pool = _filled(shape, case.cache_dtype or case.dtype)
        memory.append(pool.view(-1).view(torch.int64))
        layers.append(
            PagedAttentionInputs(
                query=query,
                key=key,
                value=None if is_latent else value,
                key_cache=pool[0],
                value_cache=None if is_latent else pool[1],
                **rest,
            )
        )
    return layers, memory


def _filled(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tensor that repeats a random pattern: drawing gigabytes would take longest."""
    flat = torch.empty(shape, dtype=dtype).view(-1)
    length = min(_PATTERN, flat.numel())
    if dtype == torch.int8:
        pattern = torch.randint(-127, 128, (length,), dtype=dtype)
    else:
        pattern = torch.randn(length).to(dtype)
    for start in range(0, flat.numel(), length):
        part = flat[start : start + length]
        part.copy_(pattern[: part.numel()])
    return flat.view(shape)


def _scale(case: Case) -> Tensor | None:
    if case.quant_type == "NONE":
        return None
    full = 4 / 127 if case.cache_dtype == torch.int8 else 1.0
    if case.quant_type == "PER_TENSOR":
        return torch.tensor([full])
    return torch.rand(case.kv_num_heads, case.head_size) * full + full / 2
