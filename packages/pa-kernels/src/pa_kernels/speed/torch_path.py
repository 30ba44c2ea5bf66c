"""The same results with torch alone: gather a row's blocks, or have keys and values dense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from pa_spec import PagedAttentionInputs
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from pa_kernels.speed.case import Case

Attend = Callable[[Tensor, Tensor, Tensor, Case], Tensor]


def gather_and_attend(
    inputs: PagedAttentionInputs[Tensor], case: Case, form: str = "enable_gqa"
) -> Tensor:
    """Store, gather every row's blocks, dequantize, attend; returns [B, H, new, Dv]."""
    key = _gathered(inputs.key_cache, inputs.key, inputs.k_scale, inputs, case)
    if inputs.value_cache is None:
        value = key[..., : case.v_head_size]
    else:
        value = _gathered(inputs.value_cache, inputs.value, inputs.v_scale, inputs, case)
    query = inputs.query.reshape(case.rows, case.new, case.num_heads, case.head_size)
    return FORMS[form](query.transpose(1, 2), key, value, case)


def dense_attention(case: Case, form: str) -> Callable[[int], Tensor]:
    """Return attention over keys and values that stand contiguous, and expanded where `form` is."""
    heads = case.kv_num_heads
    query = torch.randn(case.rows, case.num_heads, case.new, case.head_size).to(case.dtype)
    shape = (case.rows, heads, case.context, case.head_size)
    key, value = (torch.randn(shape).to(case.dtype) for _ in range(2))
    if form == "expanded":
        ratio = case.num_heads // heads
        key, value = (each.repeat_interleave(ratio, 1) for each in (key, value))
    return lambda _: FORMS[form](query, key, value, case)


def _gathered(
    cache: Tensor,
    new: Tensor | None,
    scale: Tensor | None,
    inputs: PagedAttentionInputs[Tensor],
    case: Case,
) -> Tensor:
    """Store the new tokens, then copy each row's tokens out: [B, K, context, D]."""
    assert new is not None
    heads = new.reshape(-1, case.kv_num_heads, case.head_size)
    if scale is not None:
        heads = heads.float() / scale
        heads = heads.round().clamp(-128, 127) if cache.dtype == torch.int8 else heads
        heads = heads.to(cache.dtype)
    position = torch.arange(case.past, case.context)
    slot = inputs.block_table[:, position // case.block_size].long() * case.block_size
    cache.flatten(0, 1)[(slot + position % case.block_size).flatten()] = heads
    blocks = torch.index_select(cache, 0, inputs.block_table.flatten())
    rows = blocks.view(case.rows, -1, case.kv_num_heads, case.head_size)[:, : case.context]
    if scale is not None:
        rows = rows.to(case.dtype) * scale.to(case.dtype)
    return rows.transpose(1, 2)


def _enable_gqa(query: Tensor, key: Tensor, value: Tensor, case: Case) -> Tensor:
    return _attend(query, key, value, case, enable_gqa=True)


def _expanded(query: Tensor, key: Tensor, value: Tensor, case: Case) -> Tensor:
    return _attend(query, key, value, case, enable_gqa=False)


def _grouped(query: Tensor, key: Tensor, value: Tensor, case: Case) -> Tensor:
    """Decode only: the heads of a KV head as if they were tokens, which see the same keys."""
    shape = (case.rows, case.kv_num_heads, -1, case.head_size)
    return _attend(query.reshape(shape), key, value, case, enable_gqa=False).view(
        case.rows, case.num_heads, 1, -1
    )


FORMS: Mapping[str, Attend] = MappingProxyType(
    {"enable_gqa": _enable_gqa, "expanded": _expanded, "grouped": _grouped}
)
"""Ways to tell torch that several heads share keys; the fastest of them is the one compared."""


def _attend(query: Tensor, key: Tensor, value: Tensor, case: Case, *, enable_gqa: bool) -> Tensor:
    mask = None
    if case.new > 1 and case.past > 0:
        mask = torch.ones(case.new, case.context, dtype=torch.bool).tril(case.past)
    is_causal = case.new > 1 and case.past == 0
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=is_causal, enable_gqa=enable_gqa
    )
