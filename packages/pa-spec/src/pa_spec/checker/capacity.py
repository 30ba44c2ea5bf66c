"""How many sequences fit in a memory: exact integers, nothing is rounded in favour."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from pa_spec.checker.meaning import NO_WINDOW, ModelMeaning
from pa_spec.errors import InputUnusable

BLOCK_SIZE = 16
STATE_BANKS = 2
"""Fixed state is kept twice: one bank is read while the other is written."""

NO_MANIFEST = "no state groups hold what its layers keep"
"""Why a model without a manifest is not served, by any backend."""

MAX_MEMORY_BYTES = 2**62
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_AMOUNT = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?\s*([KMGT]I?)?B?")


def parse_memory(text: str) -> int:
    """Return the bytes of an amount such as "24GiB", "80GB", "1.5 TB" or "1048576".

    Without i the units are powers of 1000. Raises InputUnusable.
    """
    found = _AMOUNT.fullmatch(text.strip().upper()) if text.isascii() else None
    if found is None:
        raise InputUnusable(f"memory {text[:40]!r}", "is no amount", "24GiB, 80GB, 512MiB, …")
    whole, part, unit = found.groups()
    digits = part or ""
    scale = _UNITS[unit or ""]
    billionths = int(digits.ljust(9, "0"))
    amount = int(whole) * scale + billionths * scale // 10**9
    if not 0 < amount <= MAX_MEMORY_BYTES:
        allowed = f"more than 0 and at most {MAX_MEMORY_BYTES} bytes"
        raise InputUnusable(f"memory {text[:40]!r}", f"is {amount} bytes", allowed)
    return amount


@final
@dataclass(frozen=True, slots=True)
class SequenceCost:
    """Bytes that one sequence of a length takes: whole blocks, and its fixed state.

    kv_bytes: over all layers. fixed_bytes: both banks.
    """

    kv_bytes: int
    fixed_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of caches and fixed state together."""
        return self.kv_bytes + self.fixed_bytes


@final
@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits in a memory.

    weight_bytes: of all stored tensors, None = unknown and not subtracted. full: every layer keeps
    the whole sequence, as this release serves. ring: windowed layers keep their window only.
    obstacle: why the model cannot be served, so that no sequence fits whatever the memory; "" = it
    can. Activations, the workspace of kernels and the block table are not counted.
    """

    memory_bytes: int
    length_tokens: int
    block_size: int
    weight_bytes: int | None
    full: SequenceCost
    ring: SequenceCost
    obstacle: str = ""

    @property
    def free_bytes(self) -> int:
        """Bytes beside the weights; negative when not even they fit."""
        return self.memory_bytes - (self.weight_bytes or 0)

    @property
    def sequences(self) -> int:
        """How many sequences of the length fit with full tables; 0 = does not fit."""
        return self._count(self.full)

    @property
    def ring_sequences(self) -> int:
        """The same when windowed layers are rings."""
        return self._count(self.ring)

    def _count(self, cost: SequenceCost) -> int:
        if self.obstacle or cost.total_bytes == 0:
            return 0
        return max(self.free_bytes, 0) // cost.total_bytes


def capacity_of(
    meaning: ModelMeaning,
    memory_bytes: int,
    length_tokens: int,
    block_size: int = BLOCK_SIZE,
    chunk_tokens: int = BLOCK_SIZE,
) -> Capacity:
    """Say how many sequences of length_tokens fit in memory_bytes beside the weights.

    chunk_tokens: the most tokens of a sequence in one step; a window's ring holds them beside the
    window (E102). Raises InputUnusable for a number that is not positive.
    """
    given = {"memory": memory_bytes, "length": length_tokens, "block_size": block_size}
    for name, value in (given | {"chunk_tokens": chunk_tokens}).items():
        if value <= 0:
            raise InputUnusable(name, f"is {value}", "a positive number")
    fixed = STATE_BANKS * meaning.fixed_bytes_per_request
    itemsize = meaning.cache_element_type.itemsize
    full, ring = 0, 0
    for layer in meaning.layers:
        block_bytes = layer.kv_elements * itemsize * block_size
        blocks = -(-length_tokens // block_size)
        full += blocks * block_bytes
        if layer.window != NO_WINDOW:
            # E102; a ring longer than the sequence has columns that nothing is written to.
            blocks = min(blocks, -(-(chunk_tokens + layer.window - 1) // block_size))
        ring += blocks * block_bytes
    return Capacity(
        memory_bytes,
        length_tokens,
        block_size,
        meaning.weight_bytes,
        SequenceCost(full, fixed),
        SequenceCost(ring, fixed),
        _obstacle(meaning),
    )


def _obstacle(meaning: ModelMeaning) -> str:
    if meaning.manifest is None:
        return NO_MANIFEST
    refused = meaning.backends and all(meaning.backends.values())
    return "no backend serves it" if refused else ""
