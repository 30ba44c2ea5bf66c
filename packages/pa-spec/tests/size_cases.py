"""Calls of spec/vectors/attention_sizes.json: numbers by a formula, results at chosen places.

`explicit` writes such a case out for the evaluator, with Python's own integers; the examination
reads the file with arrays, so each proves the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from attention_cases import FLOATS
from attention_evaluator import Evaluator, flattened

CACHES = ("key_cache", "value_cache")
WRITTEN_OUT = 160
"""Results that a case states of its output, about."""
STEPS = (1, 3, 7, 11, 13, 19, 29, 37, 53, 67, 83, 101, 131, 163, 211, 263)
"""Distances of stated results: primes, so that they visit every head and channel in turn."""


def drawn_number(index: int, salt: int) -> float:
    """The formula of the file's description: a multiple of 1/8 from -1.5 to 1.5."""
    a = (index + salt * 1000003) * 2654435761 % 2**32
    b = (a ^ (a >> 15)) * 2246822519 % 2**32
    return ((b >> 16) % 25 - 12) / 8


@dataclass
class SizeDraft:
    """One call: rows as (past, new), every number and block of it dealt by formulas.

    drawn: shapes of further inputs that are drawn. columns: of the table, 0: as many as are needed.
    """

    id: str
    checks: str
    rows: Sequence[tuple[int, int]]
    heads: tuple[int, int] = (1, 1)
    head_size: int = 8
    block_size: int = 16
    columns: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    drawn: Mapping[str, Sequence[int]] = field(default_factory=dict)
    cache_type: str = ""
    is_packed: bool = False
    is_latent: bool = False
    is_strided: bool = False

    def case(self) -> dict[str, Any]:
        """Return the case without its expected results."""
        salts = self.salts()
        heads, kv_heads = self.heads
        tokens = sum(new for _, new in self.rows)
        width = kv_heads * self.head_size
        widths = {"query": heads * self.head_size + (2 * width if self.is_packed else 0)}
        if not self.is_packed:
            widths |= {"key": width} | ({} if self.is_latent else {"value": width})
        shapes = {name: (tokens, each) for name, each in widths.items()} | dict(self.drawn)
        table, blocks = self.table()
        bounds = [sum(new for _, new in self.rows[:i]) for i in range(len(self.rows) + 1)]
        case: dict[str, Any] = {
            "id": self.id,
            "checks": self.checks,
            "element_types": list(FLOATS),
            "attributes": {"num_heads": heads, "kv_num_heads": kv_heads} | dict(self.attributes),
            "inputs": {
                name: {"shape": list(shape), "drawn": next(salts)} for name, shape in shapes.items()
            }
            | {"cumulative_sequence_length": bounds}
            | {"past_seqlens": [past for past, _ in self.rows], "block_table": table}
            | dict(self.inputs),
        }
        if self.is_strided:
            case["is_strided"] = True
        for name in CACHES[: 1 if self.is_latent else 2]:
            cache: dict[str, Any] = {"shape": [blocks, self.block_size, kv_heads, self.head_size]}
            if self.cache_type:
                cache["element_type"] = self.cache_type
            case[name] = cache | {"runs": self.filled_runs(table), "drawn": next(salts)}
        case["rounds"] = bool(self.attributes.get("do_rotary")) or "k_norm_weight" in shapes
        return case

    def salts(self) -> Iterator[int]:
        first = zlib.crc32(self.id.encode()) % 600
        return iter(range(16 * first, 16 * first + 16))

    def table(self) -> tuple[list[list[int]], int]:
        """Deal blocks that are not neighbours; what a row does not need is unmapped."""
        needed = [-(-(past + new) // self.block_size) for past, new in self.rows]
        blocks, columns = sum(needed) + 2, self.columns or max(needed)
        stride = next(each for each in (5, 3, 2, 1) if blocks % each or each == 1)
        dealt = [(1 + stride * i) % blocks for i in range(sum(needed))]
        table = []
        for row, count in enumerate(needed):
            first = sum(needed[:row])
            table.append(dealt[first : first + count] + [-1] * (columns - count))
        return table, blocks

    def filled_runs(self, table: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return first and end of slots that hold a token: of the past, or of all that is seen."""
        size, runs = self.block_size, []
        for (past, new), row in zip(self.rows, table, strict=True):
            tokens = past + new if "slot_mapping" in self.inputs else past
            for first in range(0, tokens, size):
                slot = row[first // size] * size
                runs.append([slot, slot + min(size, tokens - first)])
        return sorted(runs)


def explicit(case: Mapping[str, Any]) -> dict[str, Any]:
    """Write every number of a case out."""
    written = dict(case) | {"inputs": {k: numbers(each) for k, each in case["inputs"].items()}}
    for name in CACHES:
        if name in case:
            cache = dict(case[name])
            written[name] = cache | {"slots": contents(cache, cache.pop("drawn"))}
    return written


def numbers(values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    return nested(values["shape"], 0, values["drawn"])


def nested(shape: Sequence[int], first: int, salt: int) -> Any:
    """Draw an array as lists, from a flat index on."""
    if not shape:
        return drawn_number(first, salt)
    inner = prod(shape[1:])
    return [nested(shape[1:], first + i * inner, salt) for i in range(shape[0])]


def contents(cache: Mapping[str, Any], salt: int) -> dict[str, Any]:
    """Draw the slots that hold a token; int8 codes are the numbers times 8."""
    heads = cache["shape"][2:]
    filled = [slot for first, end in cache["runs"] for slot in range(first, end)]
    slots = {each: nested(heads, each * prod(heads), salt) for each in filled}
    if cache.get("element_type") == "int8":
        slots = {
            slot: [[round(8 * each) for each in head] for head in row]
            for slot, row in slots.items()
        }
    return {str(slot): heads for slot, heads in slots.items()}


def evaluated(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the case with its expected results, at chosen places."""
    written = explicit(case)
    found = Evaluator(written).evaluate()
    tokens, heads = len(written["inputs"]["query"]), case["attributes"]["num_heads"]
    expected: dict[str, Any] = {
        "output": {"shape": [tokens, len(found["output"][0])]} | stated(found["output"])
    }
    if "output_qk" in found:
        shape = [heads, tokens, len(found["output_qk"][0][0])]
        expected["output_qk"] = {"shape": shape} | stated(found["output_qk"])
    for name in (each for each in CACHES if each in found):
        slots = [int(each) for each in found[name]]
        expected[name] = {"slots": slots} | stated(list(found[name].values()))
    return dict(case) | {"expected": expected}


def stated(values: Any) -> dict[str, Any]:
    """Choose every step-th number in row-major order, some of every row, from the first on."""
    flat = flattened(values)
    width = len(flat) // len(values)
    steps = [each for each in STEPS if each <= width]
    step = next((each for each in steps if len(flat) <= each * WRITTEN_OUT), steps[-1])
    return {"step": step, "values": flat[::step]}
