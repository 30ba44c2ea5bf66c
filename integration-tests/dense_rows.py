"""Rows of a paged problem as dense tensors, as operators without blocks take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from pa_kernels.testing import PagedProblem
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DenseRow:
    """Which tokens a row brings, and where its context lies.

    index: b. tokens: of the packed ones. slot: [context] int64, -1 where no block is mapped.
    """

    index: int
    tokens: slice
    past: int
    slot: Tensor

    @property
    def new(self) -> int:
        """Tokens of this call."""
        return int(self.tokens.stop) - int(self.tokens.start)

    @property
    def context(self) -> int:
        """Tokens that the row holds after the call."""
        return self.past + self.new


def dense_rows(problem: PagedProblem) -> Iterator[DenseRow]:
    """Yield every row that brings tokens."""
    inputs = problem.inputs
    num_blocks, block_size = inputs.key_cache.shape[:2]
    boundaries = inputs.cumulative_sequence_length.tolist()
    for index, (first, last) in enumerate(pairwise(boundaries)):
        if first == last:
            continue
        past = int(inputs.past_seqlens[index])
        position = torch.arange(past + last - first)
        block_id = inputs.block_table[index].long()[position // block_size]
        is_mapped = (block_id >= 0) & (block_id < num_blocks)
        slot = (block_id * block_size + position % block_size).where(is_mapped, -1)
        yield DenseRow(index, slice(first, last), past, slot)


def context_of(cache: Tensor, scale: Tensor | None, row: DenseRow) -> Tensor:
    """Load a row's context [context, K, D] as float32; zeros where no block is mapped.

    cache: [N, S, K, D]. scale: None, [1] or [K, 1, D].
    """
    codes = cache.view(torch.uint8) if cache.element_size() == 1 else cache
    stored = codes.flatten(0, 1)[row.slot.clamp(min=0)].view(cache.dtype).float()
    if scale is not None:
        stored = stored * (scale if scale.numel() == 1 else scale[:, 0])
    return stored.where((row.slot >= 0)[:, None, None], 0.0)


def heads_of(problem: PagedProblem) -> tuple[Tensor, Tensor, Tensor | None]:
    """Separate query [T, H, D], key and value [T, K, D] as float32, whichever mode they came in."""
    options, inputs = problem.options, problem.inputs
    q_heads, kv_heads, size = options.num_heads, options.kv_num_heads, options.head_size
    if inputs.key is None:
        heads = inputs.query.float().reshape(-1, q_heads + 2 * kv_heads, size)
        first, last = q_heads, q_heads + kv_heads
        return heads[:, :first], heads[:, first:last], heads[:, last:]
    query = inputs.query.float().reshape(-1, q_heads, size)
    key = inputs.key.float().reshape(-1, kv_heads, size)
    if inputs.value is None:
        return query, key, None
    return query, key, inputs.value.float().reshape(-1, kv_heads, size)


def in_order(problem: PagedProblem) -> PagedProblem:
    """Return the same problem with every row's blocks side by side and in order.

    For problems whose slots are derived. Shared blocks are given to each row that shares them.
    """
    inputs = problem.inputs
    assert inputs.slot_mapping is None
    num_blocks, block_size = inputs.key_cache.shape[:2]
    total = inputs.past_seqlens + inputs.cumulative_sequence_length.diff()
    table = torch.full_like(inputs.block_table, -1)
    chosen: list[int] = []
    for row, tokens in enumerate(total.tolist()):
        for column in range(-(-tokens // block_size)):
            block_id = int(inputs.block_table[row, column])
            if 0 <= block_id < num_blocks:
                table[row, column] = len(chosen)
                chosen.append(block_id)
    caches = [
        None if cache is None else _blocks(cache, torch.tensor(chosen))
        for cache in (inputs.key_cache, inputs.value_cache)
    ]
    assert caches[0] is not None
    moved = replace(inputs, block_table=table, key_cache=caches[0], value_cache=caches[1])
    return replace(problem, inputs=moved)


def _blocks(cache: Tensor, chosen: Tensor) -> Tensor:
    codes = cache.view(torch.uint8) if cache.element_size() == 1 else cache
    return codes[chosen].view(cache.dtype)
