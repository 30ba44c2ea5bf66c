"""Time the operator on a CPU: python -m pa_kernels.bench prints one JSON object a line.

Every call works on the next of several caches, which together are at least four times as large as
the last-level cache, so keys and values come from memory as they do between the layers of a model.
In the same run: gathering the blocks and calling torch's scaled_dot_product_attention, and a plain
read of as many bytes. A time is the median of a round of calls, and the best of several rounds;
the three kinds of work take turns, so that a busy machine disturbs all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from pa_kernels.prepare import prepare
from pa_kernels.signature import signature_of

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_ASSUMED_CACHE_BYTES = 32 << 20
_ROTATION = 4
"""How often the last-level cache fits into the rotated caches."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workload: rows that hold `past` tokens and bring `new` ones."""

    name: str
    rows: int
    past: int
    new: int
    num_heads: int = 32
    kv_num_heads: int = 8
    head_size: int = 128
    block_size: int = 16

    @property
    def columns(self) -> int:
        """Block-table columns that a row fills."""
        return -(-(self.past + self.new) // self.block_size)

    def read_bytes(self, dtype: torch.dtype) -> int:
        """Bytes of keys and values that one call reads at least."""
        tokens = self.rows * (self.past + self.new)
        return 2 * tokens * self.kv_num_heads * self.head_size * dtype.itemsize


CASES = (
    Case("decode", rows=1, past=4096, new=1),
    Case("decode", rows=16, past=512, new=1),
    Case("decode", rows=16, past=512, new=1, num_heads=9, kv_num_heads=3, head_size=64),
    Case("decode", rows=16, past=4096, new=1, num_heads=9, kv_num_heads=3, head_size=64),
    Case("prefill", rows=1, past=0, new=512),
    Case("prefill", rows=1, past=0, new=512, num_heads=9, kv_num_heads=3, head_size=64),
    Case("chunk", rows=1, past=1024, new=256, num_heads=9, kv_num_heads=3, head_size=64),
)


def last_level_cache_bytes() -> int:
    """Return the size of the largest cache that Linux names, or an assumption of 32 MiB."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    found = [path.read_text().strip() for path in folder.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    known = [int(text[:-1]) * units[text[-1]] for text in found if text[-1:] in units]
    return max(known, default=_ASSUMED_CACHE_BYTES)


def make_inputs(case: Case, dtype: torch.dtype) -> list[PagedAttentionInputs[Tensor]]:
    """Return inputs that differ in their caches only, enough of them to leave the CPU's cache."""
    per_row = case.columns
    num_blocks = case.rows * per_row
    shape = (num_blocks, case.block_size, case.kv_num_heads, case.head_size)
    pool_bytes = 2 * dtype.itemsize
    for extent in shape:
        pool_bytes *= extent
    layers = max(2, -(-_ROTATION * last_level_cache_bytes() // pool_bytes))
    tokens, kv_width = case.rows * case.new, case.kv_num_heads * case.head_size
    query = torch.randn(tokens, case.num_heads * case.head_size).to(dtype)
    key, value = (torch.randn(tokens, kv_width).to(dtype) for _ in range(2))
    table = torch.randperm(num_blocks).int().reshape(case.rows, per_row)
    boundaries = torch.arange(case.rows + 1, dtype=torch.int32) * case.new
    past = torch.full((case.rows,), case.past, dtype=torch.int32)
    pools = [torch.randn(shape).to(dtype) for _ in range(2)]
    return [
        PagedAttentionInputs(
            query, key, value, pools[0].clone(), pools[1].clone(), boundaries, past, table
        )
        for _ in range(layers)
    ]


def gather_and_attend(inputs: PagedAttentionInputs[Tensor], case: Case) -> Tensor:
    """Do the same with torch: store, gather every row's blocks, attend."""
    assert inputs.key is not None
    assert inputs.value is not None
    assert inputs.value_cache is not None
    total = case.past + case.new
    position = torch.arange(case.past, total)
    slot = inputs.block_table[:, position // case.block_size].long() * case.block_size
    slot = (slot + position % case.block_size).flatten()
    heads = (case.rows, case.new, case.num_heads, case.head_size)
    gathered = []
    for cache, new in ((inputs.key_cache, inputs.key), (inputs.value_cache, inputs.value)):
        cache.flatten(0, 1)[slot] = new.reshape(-1, case.kv_num_heads, case.head_size)
        blocks = cache[inputs.block_table]
        gathered.append(blocks.flatten(1, 2)[:, :total].transpose(1, 2))
    query = inputs.query.reshape(heads).transpose(1, 2)
    mask = None
    if case.new > 1 and case.past > 0:
        mask = torch.ones(case.new, total, dtype=torch.bool).tril(case.past)
    is_causal = case.new > 1 and case.past == 0
    key, value = gathered
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=is_causal, enable_gqa=True
    )


def measure(case: Case, dtype: torch.dtype, repeats: int, rounds: int) -> dict[str, object]:
    """Time one case and return its line."""
    inputs = make_inputs(case, dtype)
    attributes = PagedAttentionAttributes(case.num_heads, case.kv_num_heads)
    call = prepare(signature_of(inputs[0], attributes))
    read_bytes = case.read_bytes(dtype)
    plain = torch.randn(len(inputs), read_bytes // 4)
    works: tuple[Callable[[int], object], ...] = (
        lambda turn: call.run(inputs[turn % len(inputs)]),
        lambda turn: gather_and_attend(inputs[turn % len(inputs)], case),
        lambda turn: plain[turn % len(inputs)].sum(),
    )
    times = [[_median_us(work, repeats) for work in works] for _ in range(rounds)]
    operator_us, torch_us, read_us = (min(column) for column in zip(*times, strict=True))
    pairs = case.rows * case.new * (case.past + (case.new + 1) / 2)
    return {
        "case": case.name,
        "dtype": str(dtype).removeprefix("torch."),
        "rows": case.rows,
        "past": case.past,
        "new": case.new,
        "heads": f"{case.num_heads}/{case.kv_num_heads}x{case.head_size}",
        "block_size": case.block_size,
        "threads": torch.get_num_threads(),
        "layers": len(inputs),
        "backend": call.backend,
        "us": round(operator_us, 1),
        "gather_sdpa_us": round(torch_us, 1),
        "times_faster": round(torch_us / operator_us, 2),
        "gb_per_s": round(read_bytes / operator_us / 1e3, 2),
        "read_gb_per_s": round(read_bytes / read_us / 1e3, 2),
        "of_read": round(read_us / operator_us, 3),
        "gflop_per_s": round(4 * pairs * case.num_heads * case.head_size / operator_us / 1e3, 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the cases and print their lines."""
    parser = argparse.ArgumentParser(prog="python -m pa_kernels.bench", description=__doc__)
    parser.add_argument("--dtype", choices=sorted(_DTYPES), action="append")
    parser.add_argument("--case", choices=sorted({case.name for case in CASES}), action="append")
    parser.add_argument("--repeats", type=int, default=10, help="calls of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0 = as torch decides")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    for case, dtype in _chosen(options.case, options.dtype):
        line = measure(case, dtype, options.repeats, options.rounds)
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _chosen(
    cases: list[str] | None, dtypes: list[str] | None
) -> Iterator[tuple[Case, torch.dtype]]:
    for case in CASES:
        if not cases or case.name in cases:
            yield from ((case, _DTYPES[name]) for name in dtypes or _DTYPES)


def _median_us(work: Callable[[int], object], repeats: int) -> float:
    times = []
    for turn in range(repeats + 2):
        start = time.perf_counter()
        work(turn)
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:]) * 1e6


if __name__ == "__main__":
    main()
