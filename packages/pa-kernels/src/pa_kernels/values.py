"""Rules about values, checked where the lengths are at hand."""

from __future__ import annotations

import torch
from pa_spec import ContractViolation, PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor


def check_host_values(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
) -> None:
    """Refuse lengths, positions and scales that break the contract; changes nothing.

    For host tensors: on a device it would wait for the device. O(T + B).

    Raises ContractViolation (V65 lengths and the rows of cos_cache, V66 query_positions,
    V67 capacities of attention_bias, V105 scales).
    """
    boundaries = inputs.cumulative_sequence_length.long()
    past = inputs.past_seqlens.long()
    new = boundaries.diff()
    _check_boundaries(boundaries, new, inputs.query.shape[0])
    if past.numel() and int(past.min()) < 0:
        raise ContractViolation("V65", "past_seqlens", "no negative length", f"{int(past.min())}")
    total = past + new
    capacity = inputs.block_table.shape[1] * inputs.key_cache.shape[1]
    if int(total.max()) > capacity:
        expected = f"at most {capacity} tokens in a row (block_table columns * block_size)"
        raise ContractViolation("V65", "past_seqlens", expected, f"{int(total.max())}")
    _check_positions(inputs, attributes, int(torch.where(new > 0, total, 0).max()))
    _check_bias(inputs.attention_bias, int(new.max()), int(total.max()))
    for name, scale in (("k_scale", inputs.k_scale), ("v_scale", inputs.v_scale)):
        if scale is not None and not bool((torch.isfinite(scale) & (scale > 0)).all()):
            raise ContractViolation("V105", name, "finite values above 0", "others")


def _check_boundaries(boundaries: Tensor, new: Tensor, num_tokens: int) -> None:
    name = "cumulative_sequence_length"
    if int(boundaries[0]) != 0:
        raise ContractViolation("V65", name, "0 first", f"{int(boundaries[0])}")
    if int(new.min()) < 0:
        raise ContractViolation("V65", name, "non-decreasing values", f"{boundaries.tolist()}")
    if int(boundaries[-1]) != num_tokens:
        raise ContractViolation("V65", name, f"T={num_tokens} last", f"{int(boundaries[-1])}")


def _check_positions(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes, end: int
) -> None:
    positions = inputs.query_positions
    if positions is not None and positions.numel():
        if int(positions.min()) < 0:
            raise ContractViolation(
                "V66", "query_positions", "no negative position", f"{int(positions.min())}"
            )
        end = int(positions.max()) + 1
    if attributes.do_rotary and inputs.cos_cache is not None and end > inputs.cos_cache.shape[0]:
        raise ContractViolation(
            "V65", "cos_cache", f"at least {end} positions", f"{inputs.cos_cache.shape[0]}"
        )


def _check_bias(bias: Tensor | None, query_tokens: int, context_tokens: int) -> None:
    if bias is None:
        return
    if bias.shape[2] < query_tokens or bias.shape[3] < context_tokens:
        expected = f"capacities of at least {query_tokens} and {context_tokens}"
        raise ContractViolation("V67", "attention_bias", expected, f"{list(bias.shape)}")
