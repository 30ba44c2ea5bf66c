"""The calls of spec/vectors/attention.json: small sizes, numbers that are multiples of 1/8.

Each feature has the smallest problem in which doing it wrong shows. Expected numbers come from
attention_evaluator.py; test_attention_vectors.py proves that the committed file is this one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ("float32", "float16", "bfloat16")


@dataclass
class Draft:
    """One call: rows as (past, new), the table, and what is added to them.

    extra_slots: filled beside those of committed tokens. is_sparse: of committed tokens only those
    in the window of the next one are filled.
    """

    id: str
    checks: str
    rows: Sequence[tuple[int, int]]
    table: Sequence[Sequence[int]]
    heads: tuple[int, int] = (1, 1)
    head_size: int = 8
    blocks: int = 2
    block_size: int = 16
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    cache_type: str = ""
    is_packed: bool = False
    is_latent: bool = False
    is_strided: bool = False
    element_types: Sequence[str] = FLOATS
    extra_slots: Iterable[int] = ()
    is_sparse: bool = False

    def case(self) -> dict[str, Any]:
        """Return the case without its expected results."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        heads, kv_heads = self.heads
        new = [count for _, count in self.rows]
        tokens, width = sum(new), kv_heads * self.head_size
        inputs: dict[str, Any] = {}
        query_width = heads * self.head_size + (2 * width if self.is_packed else 0)
        inputs["query"] = drawn(rng, tokens, query_width)
        # Sixteenths have a bit more than float8e4m3fn, so that rounding shows.
        parts = 16 if self.cache_type == "float8e4m3fn" else 8
        if not self.is_packed:
            inputs["key"] = drawn(rng, tokens, width, parts)
            if not self.is_latent:
                inputs["value"] = drawn(rng, tokens, width, parts)
        inputs["cumulative_sequence_length"] = np.cumsum([0, *new]).tolist()
        inputs["past_seqlens"] = [past for past, _ in self.rows]
        inputs["block_table"] = [list(row) for row in self.table]
        shape = [self.blocks, self.block_size, kv_heads, self.head_size]
        attributes = {"num_heads": heads, "kv_num_heads": kv_heads} | dict(self.attributes)
        case: dict[str, Any] = {
            "id": self.id,
            "checks": self.checks,
            "element_types": list(self.element_types),
            "attributes": attributes,
            "inputs": inputs | dict(self.inputs),
        }
        if self.is_strided:
            case["is_strided"] = True
        for name in ("key_cache", "value_cache")[: 1 if self.is_latent else 2]:
            cache: dict[str, Any] = {"shape": shape}
            if self.cache_type:
                cache["element_type"] = self.cache_type
            slots = self.filled_slots()
            cache["slots"] = {str(slot): self.draw_slot(rng, kv_heads) for slot in slots}
            case[name] = cache
        case["rounds"] = bool(attributes.get("do_rotary")) or "q_norm_weight" in self.inputs
        return case

    def filled_slots(self) -> list[int]:
        """Return the slots of committed tokens, each once."""
        found = list(self.extra_slots)
        for (past, _), row in zip(self.rows, self.table, strict=True):
            window = self.attributes["local_window_size"] if self.is_sparse else past + 1
            for place in range(past + 1 - window, past):
                block = row[place // self.block_size]
                if 0 <= block < self.blocks:
                    found.append(block * self.block_size + place % self.block_size)
        return sorted(set(found))

    def draw_slot(self, rng: np.random.Generator, kv_heads: int) -> list[list[float]]:
        if self.cache_type == "int8":
            codes: list[list[float]] = rng.integers(-6, 7, (kv_heads, self.head_size)).tolist()
            return codes
        heads: list[list[float]] = drawn(rng, kv_heads, self.head_size)
        return heads


def drawn(rng: np.random.Generator, rows: int, columns: int, parts: int = 8) -> Any:
    """Draw multiples of 1/parts up to 1.5; no rows are written as their shape."""
    if not rows:
        return {"shape": [0, columns]}
    most = parts * 3 // 2
    return (rng.integers(-most, most + 1, (rows, columns)) / parts).tolist()


def rotary(positions: int, pairs: int) -> dict[str, Any]:
    """Return tables that turn each pair by about a radian more than the one before.

    Multiples of 1/8, so the turn also changes lengths a little; the formula does not mind.
    """
    angle = np.arange(positions)[:, None] * (1.0 / (1 + np.arange(pairs)))
    tables = {"cos_cache": np.cos(angle), "sin_cache": np.sin(angle)}
    return {name: (np.round(each * 8) / 8).tolist() for name, each in tables.items()}
