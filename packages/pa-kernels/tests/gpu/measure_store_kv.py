"""Prints how fast store_kv moves bytes beside a device copy of the same bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from pa_kernels.backends.cuda import store_kv

BLOCK_SIZE = 16
_REPEATS = 51
_FLUSH_BYTES = 256 * 1024 * 1024  # more than any L2, so that each launch reads from memory


@dataclass(frozen=True, slots=True)
class Case:
    """T tokens of K heads of D channels, as one layer stores them."""

    tokens: int
    kv_num_heads: int
    head_size: int
    dtype: torch.dtype

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written: keys and values, once each."""
        return 4 * self.tokens * self.kv_num_heads * self.head_size * self.dtype.itemsize


CASES = tuple(
    Case(tokens, heads, size, torch.bfloat16)
    for heads, size in ((8, 128), (3, 64))
    for tokens in (1, 64, 1024, 8192, 65536)
)


def seconds(launch: Callable[[], object], flush: torch.Tensor) -> float:
    """Median time of one launch on cold caches."""
    measured: list[float] = []
    for _ in range(_REPEATS):
        flush.zero_()
        start, end = _event(), _event()
        start.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        measured.append(start.elapsed_time(end) / 1e3)
    return sorted(measured)[_REPEATS // 2]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def captured(launch: Callable[[], object]) -> Callable[[], object]:
    """The launch as a graph, so that the host's cost is not measured."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def row(case: Case, flush: torch.Tensor) -> str:
    """Measure one case and format it."""
    shape = (case.tokens, case.kv_num_heads, case.head_size)
    key, value = (torch.randn(shape, device="cuda").to(case.dtype) for _ in range(2))
    blocks = -(-case.tokens // BLOCK_SIZE) + 7
    pool = (blocks, BLOCK_SIZE, case.kv_num_heads, case.head_size)
    caches = [torch.zeros(pool, dtype=case.dtype, device="cuda") for _ in range(2)]
    block_ids = torch.randperm(blocks, device="cuda")
    token = torch.arange(case.tokens, device="cuda")
    slots = (block_ids[token // BLOCK_SIZE] * BLOCK_SIZE + token % BLOCK_SIZE).int()
    both = torch.stack((key, value))
    target = torch.empty_like(both)
    store = seconds(captured(lambda: store_kv(key, value, caches[0], caches[1], slots)), flush)
    copy = seconds(captured(lambda: target.copy_(both)), flush)
    return (
        f"| {case.tokens:6d} | {case.kv_num_heads} x {case.head_size} "
        f"| {case.moved_bytes / store / 1e9:8.1f} | {case.moved_bytes / copy / 1e9:8.1f} "
        f"| {copy / store:5.2f} | {store * 1e6:8.2f} |"
    )


def main() -> None:
    """Print the table."""
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    out = sys.stdout
    out.write(f"device: {torch.cuda.get_device_name()}; torch {torch.__version__}\n")
    out.write("| tokens | K x D | store_kv GB/s | copy GB/s | copy time / store time | us |\n")
    out.write("| ---: | --- | ---: | ---: | ---: | ---: |\n")
    for case in CASES:
        out.write(row(case, flush) + "\n")


if __name__ == "__main__":
    main()
