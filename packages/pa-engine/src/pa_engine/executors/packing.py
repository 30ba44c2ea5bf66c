"""From a step's arrays to the integers on the device: one buffer, one copy.

Life of a buffer: taken from the ring → filled on the host → copied → in use until its step has
been collected or discarded → taken again. The ring has room for more steps than are ever in
flight, and an event on each CUDA copy guards its reuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pa_spec import Int32Array, Int64Array, SampledTokens, StepLimits, StepPlan, StepWork
from torch import Tensor

RING_BUFFERS = 3
"""One filled, one in flight, one being collected."""

METADATA = 3
"""Entries of attention_metadata."""

_FIRST_INTEGERS = 4096


@dataclass(frozen=True, slots=True)
class PackedStep:
    """The integers of one step on the device; views of one buffer, all int32.

    input_ids: [T]. cumulative_sequence_length: [B+1]. past_seqlens, resident: [B]. logits_rows,
    sampling_resident: [·]. attention_metadata: [3] on the host.
    """

    input_ids: Tensor
    cumulative_sequence_length: Tensor
    past_seqlens: Tensor
    resident: Tensor
    logits_rows: Tensor
    sampling_resident: Tensor
    attention_metadata: Tensor


class UploadBuffer:
    """Host integers and their place on the device; one allocation that only grows.

    On a CUDA device the host side is pinned and an event tells when a copy may be overwritten;
    on a CPU both sides are the same memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._on_cuda = device.type == "cuda"
        self._copied: torch.cuda.Event | None = None
        if self._on_cuda:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._allocate(_FIRST_INTEGERS)

    def _allocate(self, size: int) -> None:
        self._host = torch.zeros(size, dtype=torch.int32, pin_memory=self._on_cuda)
        self._view: Int32Array = self._host.numpy()
        self._on_device = self._host
        if self._on_cuda:
            self._on_device = torch.zeros(size, dtype=torch.int32, device=self._device)

    def upload(self, parts: Sequence[Int32Array | Int64Array], total: int) -> tuple[Tensor, Tensor]:
        """Write the parts one behind the other and start their copy.

        Returns the device side and the host side, [total] int32 each.
        """
        if self._copied is not None:
            self._copied.synchronize()
        if total > len(self._view):
            self._allocate(1 << (total - 1).bit_length())
        np.concatenate(parts, out=self._view[:total], casting="same_kind")
        if self._copied is not None:
            self._on_device[:total].copy_(self._host[:total], non_blocking=True)
            self._copied.record()
        return self._on_device[:total], self._host


class StepPacker:
    """Owns the device-resident block table, the last tokens, and the ring of upload buffers.

    table: [R, M] int32, kept up to date by the reservations' deltas. last_token: [R] int32,
    written by sampling, read by the next step's ids.
    """

    def __init__(self, limits: StepLimits, columns: int, device: str) -> None:
        rows = limits.max_batch_size
        self.device = torch.device(device)
        self.table = torch.full((rows, columns), -1, dtype=torch.int32, device=self.device)
        self.last_token = torch.zeros(rows, dtype=torch.int32, device=self.device)
        self._ring = [UploadBuffer(self.device) for _ in range(RING_BUFFERS)]
        self._next = 0

    def pack(self, work: StepWork) -> PackedStep:
        """Upload a step's integers, apply its table entries, and resolve its input ids.

        The result is valid until the ring comes round again. Nothing here depends on how many
        block-table columns exist.
        """
        plan, delta = work.plan, work.table
        buffer = self._ring[self._next]
        self._next = (self._next + 1) % RING_BUFFERS
        tokens, rows = plan.total_tokens, len(plan.resident)
        # Rows of one token each are their own packed tokens.
        owner = plan.resident if tokens == rows else np.repeat(plan.resident, plan.tokens)
        chosen = plan.sampling_rows()
        samples = plan.resident if chosen is None else plan.resident[chosen]
        parts = (
            work.host_ids,
            owner,
            plan.packed_offset,
            _tail(plan),
            plan.past_tokens,
            plan.resident,
            plan.logits_rows,
            samples,
            delta.resident,
            delta.column,
            delta.block_id,
        )
        added = len(delta.resident)
        sizes = [tokens, tokens, rows + 1, METADATA, rows, rows]
        sizes += [len(plan.logits_rows), len(samples), added, added, added]
        total = sum(sizes)
        device, host = buffer.upload(parts, total)
        ids, of_row, cumulative, _, past, resident, logits, sampled, *table = torch.split(
            device, sizes
        )
        self.table[table[0], table[1]] = table[2]
        last = self.last_token.index_select(0, of_row)
        metadata = 2 * tokens + rows + 1
        return PackedStep(
            input_ids=torch.where(ids < 0, last, ids),
            cumulative_sequence_length=cumulative,
            past_seqlens=past,
            resident=resident,
            logits_rows=logits,
            sampling_resident=sampled,
            attention_metadata=host[metadata : metadata + METADATA],
        )

    def block_table(self, packed: PackedStep, columns: int) -> Tensor:
        """Select the step's rows of the device table: [B, columns]."""
        return self.table[:, :columns].index_select(0, packed.resident)

    def remember(self, packed: PackedStep, tokens: Tensor) -> None:
        """Keep the sampled tokens on the device for the next step's ids."""
        self.last_token.index_copy_(0, packed.sampling_resident.long(), tokens)

    def remember_host(self, packed: PackedStep, tokens: Int32Array) -> None:
        """Keep tokens that were chosen on the host."""
        self.remember(packed, torch.from_numpy(tokens).to(self.device))


def _tail(plan: StepPlan) -> Int32Array:
    """Return what follows the row offsets: T, then [max count, max KV, its lower bound] (E69)."""
    longest = plan.target_tokens.max()
    return np.array([plan.total_tokens, plan.tokens.max(), longest, longest], np.int32)


def sampled_on_host(tokens: Tensor, faulty: Tensor | None, execution_ns: int) -> SampledTokens:
    """Bring a step's tokens to the host."""
    flags = None if faulty is None else faulty.cpu().numpy()
    return SampledTokens(tokens.cpu().numpy(), flags, execution_ns)
