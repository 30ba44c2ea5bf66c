"""Rules about values, checked where the lengths are at hand."""

from __future__ import annotations

import torch
from pa_spec import (
    PagedAttentionAttributes,
    PagedAttentionInputs,
    check_lengths,
    rules,
)
from torch import Tensor


def check_host_values(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
) -> None:
    """Refuse lengths, positions and scales that break the contract; changes nothing.

    For host tensors: on a device it would wait for the device. O(T + B).

    Raises ContractViolation (V65 lengths and the positions that cos_cache has, V66 query_positions,
    V67 capacities of attention_bias, V105 scales).
    """
    boundaries, past = inputs.cumulative_sequence_length.cpu(), inputs.past_seqlens.cpu()
    capacity = inputs.block_table.shape[1] * inputs.key_cache.shape[1]
    check_lengths(boundaries.numpy(), past.numpy(), inputs.query.shape[0], capacity)
    new = boundaries.long().diff()
    total = past.long() + new
    _check_positions(inputs, attributes, int(total.where(new > 0, 0).max()))
    _check_bias(inputs.attention_bias, int(new.max()), int(total.max()))
    for name, scale in (("k_scale", inputs.k_scale), ("v_scale", inputs.v_scale)):
        if scale is None:
            continue
        is_bad = ~(torch.isfinite(scale) & (scale > 0)).flatten()
        if bool(is_bad.any()):
            worst = float(scale.flatten()[is_bad][0])
            raise rules()["V105"].violation(name, f"{worst}")


def _check_positions(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes, end: int
) -> None:
    rule_id, name, positions = "V65", "past_seqlens", inputs.query_positions
    if positions is not None and positions.numel():
        rule_id, name, lowest = "V66", "query_positions", int(positions.min())
        if lowest < 0:
            raise rules()[rule_id].violation(name, f"{lowest}", "negative")
        end = int(positions.max()) + 1
    if attributes.do_rotary and inputs.cos_cache is not None and end > inputs.cos_cache.shape[0]:
        rows = inputs.cos_cache.shape[0]
        raise rules()[rule_id].violation(name, f"{end - 1}", "rotary", rows=rows)


def _check_bias(bias: Tensor | None, query_tokens: int, context_tokens: int) -> None:
    if bias is None:
        return
    if bias.shape[2] < query_tokens or bias.shape[3] < context_tokens:
        needed = {"query_tokens": query_tokens, "context_tokens": context_tokens}
        found = f"{list(bias.shape)}"
        raise rules()["V67"].violation("attention_bias", found, "capacity", **needed)
