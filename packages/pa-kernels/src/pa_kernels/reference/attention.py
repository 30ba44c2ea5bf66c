"""Attention of one row over its paged context."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor

from pa_kernels.geometry import CallGeometry
from pa_kernels.reference.quantize import from_cache


@dataclass(frozen=True, slots=True)
class Row:
    """The part of a call that belongs to one row.

    index: b. query: [n, H, D]. position: [n]. context_tokens: past + n, the keys it may see.
    """

    index: int
    query: Tensor
    position: Tensor
    context_tokens: int


@dataclass(frozen=True, slots=True)
class RowResult:
    """output: [n, H, Dv]. logits, probabilities: [H, n, context]; masked -inf and 0."""

    output: Tensor
    logits: Tensor
    probabilities: Tensor


def attend_row(
    row: Row,
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    geometry: CallGeometry,
) -> RowResult:
    """Compute one row's attention; reads the caches, writes nothing."""
    dtype = row.query.dtype
    block_ids, is_mapped = _context_blocks(row, inputs, geometry)
    key = _gather(inputs.key_cache, inputs.k_scale, block_ids, row)
    if inputs.value_cache is None:
        value = key[..., : geometry.v_head_size]
    else:
        value = _gather(inputs.value_cache, inputs.v_scale, block_ids, row)
    is_visible = _mask(row, is_mapped, attributes.local_window_size)

    # Query heads h of the same KV head are neighbours: h = kv_head * group + i.
    tokens, kv_heads = row.query.shape[0], geometry.kv_num_heads
    grouped = row.query.reshape(tokens, kv_heads, -1, geometry.head_size)
    logits = torch.einsum("nkgd,mkd->kgnm", grouped, key).flatten(0, 1) * geometry.scale
    # A softcap that the computation cannot hold is above any of its logits.
    if 0 < attributes.softcap <= torch.finfo(dtype).max:
        logits = attributes.softcap * torch.tanh(logits / attributes.softcap)
    if inputs.attention_bias is not None:
        logits = logits + _bias(row, inputs.attention_bias).to(dtype)
    logits = logits.masked_fill(~is_visible, -torch.inf)
    probabilities = _softmax(logits, inputs.head_sink)
    output = _weighted_values(probabilities, value, is_visible)
    return RowResult(output, logits, probabilities)


def _context_blocks(
    row: Row, inputs: PagedAttentionInputs[Tensor], geometry: CallGeometry
) -> tuple[Tensor, Tensor]:
    """Return the row's block ids [columns] and which of its positions are mapped [context]."""
    columns = -(-row.context_tokens // geometry.block_size)
    block_ids = inputs.block_table[row.index, :columns].long()
    is_mapped = (block_ids >= 0) & (block_ids < geometry.num_blocks)
    per_position = is_mapped.repeat_interleave(geometry.block_size)[: row.context_tokens]
    return block_ids.where(is_mapped, 0), per_position


def _gather(cache: Tensor, scale: Tensor | None, block_ids: Tensor, row: Row) -> Tensor:
    """Return the row's context [context, K, D] in logical order; unmapped positions hold junk."""
    if cache.element_size() == 1:
        blocks = cache.view(torch.uint8)[block_ids].view(cache.dtype)
    else:
        blocks = cache[block_ids]
    return from_cache(blocks.flatten(0, 1)[: row.context_tokens], scale, row.query.dtype)


def _mask(row: Row, is_mapped: Tensor, window_tokens: int) -> Tensor:
    """Return which keys each query may see: [n, context]."""
    keys = torch.arange(row.context_tokens, device=row.position.device)
    last = row.position[:, None]
    is_visible = is_mapped[None, :] & (keys <= last)
    if window_tokens > 0:
        # W positions including the query's own.
        is_visible &= keys > last - window_tokens
    return is_visible


def _bias(row: Row, bias: Tensor) -> Tensor:
    own = bias[row.index if bias.shape[0] > 1 else 0]
    return own[:, : row.query.shape[0], : row.context_tokens]


def _softmax(logits: Tensor, head_sink: Tensor | None) -> Tensor:
    """Return probabilities; a query that sees nothing gets zeros, not NaN."""
    sink = None if head_sink is None else head_sink.to(logits.dtype)[:, None, None]
    highest = logits.amax(dim=-1, keepdim=True)
    sees_nothing = highest == -torch.inf
    if sink is not None:
        highest = torch.maximum(highest, sink)
    weights = torch.exp(logits - highest)
    total = weights.sum(dim=-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - highest)
    return (weights / total).masked_fill(sees_nothing, 0.0)


def _weighted_values(probabilities: Tensor, value: Tensor, is_visible: Tensor) -> Tensor:
    """Return sum(p * v) [n, H, Dv] to which masked positions contribute nothing at all.

    A matrix product would turn 0 * NaN into NaN, so values that are not finite are taken out and
    added only to the queries that see them.
    """
    kv_num_heads = value.shape[1]
    grouped = probabilities.reshape(kv_num_heads, -1, *probabilities.shape[1:])
    is_finite = torch.isfinite(value)
    clean = value.where(is_finite, 0.0)
    output = torch.einsum("kgnm,mkd->nkgd", grouped, clean)
    spoiled = (~is_finite).flatten(1).any(dim=1) & is_visible.any(dim=0)
    for position in spoiled.nonzero().flatten().tolist():
        rest = value[position].where(~is_finite[position], 0.0)  # [K, Dv]
        weight = grouped[..., position].permute(2, 0, 1)[..., None]  # [n, K, G, 1]
        seen = is_visible[:, position][:, None, None, None]
        affected = ~is_finite[position][None, :, None, :] & seen
        output = output + (weight * rest[None, :, None, :]).where(affected, 0.0)
    return output.flatten(1, 2)
