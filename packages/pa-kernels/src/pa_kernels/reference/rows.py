"""Where each packed token belongs: its row, its position, its slot."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pa_spec import UNMAPPED, PagedAttentionInputs
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenPlaces:
    """Places of the packed tokens.

    row: [T] int64. position: [T] int64, for RoPE and the masks. slot: [T] int64 in the pool seen
    as [N*S], -1 = the token is not stored.
    """

    row: Tensor
    position: Tensor
    slot: Tensor


def token_places(inputs: PagedAttentionInputs[Tensor]) -> TokenPlaces:
    """Derive every token's place from the lengths, or take what the caller supplied."""
    boundaries = inputs.cumulative_sequence_length.long()
    past = inputs.past_seqlens.long()
    rows = torch.arange(past.shape[0], device=past.device)
    row = rows.repeat_interleave(boundaries.diff())
    offset = torch.arange(row.shape[0], device=past.device) - boundaries[row]
    absolute = past[row] + offset
    position = absolute if inputs.query_positions is None else inputs.query_positions.long()
    num_slots = inputs.key_cache.shape[0] * inputs.key_cache.shape[1]
    if inputs.slot_mapping is None:
        # query_positions never moves the derived slot.
        slot = _derived_slot(inputs, row, absolute)
    else:
        slot = inputs.slot_mapping.long()
    stored = (slot >= 0) & (slot < num_slots)
    return TokenPlaces(row, position, slot.where(stored, UNMAPPED))


def _derived_slot(inputs: PagedAttentionInputs[Tensor], row: Tensor, absolute: Tensor) -> Tensor:
    num_blocks, block_size = inputs.key_cache.shape[:2]
    block_id = inputs.block_table.long()[row, absolute // block_size]
    mapped = (block_id >= 0) & (block_id < num_blocks)
    return (block_id * block_size + absolute % block_size).where(mapped, UNMAPPED)
