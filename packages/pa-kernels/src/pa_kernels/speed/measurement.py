"""Time one workload beside what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from pa_spec import PagedAttentionInputs
from torch import Tensor

from pa_kernels.backends.table import BACKENDS
from pa_kernels.prepare import PreparedCall, paged_attention, prepare
from pa_kernels.signature import signature_of
from pa_kernels.speed.case import Case, type_name
from pa_kernels.speed.layers import last_level_cache_bytes, make_layers, num_layers
from pa_kernels.speed.memory_read import read_works
from pa_kernels.speed.timing import Budget, Samples, Work, interleave
from pa_kernels.speed.torch_path import dense_attention, gather_and_attend

_MEMORY = Path("/proc/meminfo")
_DENSE_COPIES = 4
"""Copies of a layer that gathering and attending may hold at once, in the activations' type."""

Layers = list[PagedAttentionInputs[Tensor]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found of one workload.

    figures: what limits are about. times_us: median of every work. fastest: which form of a kind of
    work the figures compare with. skipped: why nothing was measured, "" where something was.
    """

    case: Case
    layers: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    times_us: Mapping[str, float] = field(default_factory=dict)
    fastest: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def line(self) -> dict[str, object]:
        """The measurement as one JSON object."""
        case = self.case
        about: dict[str, object] = {
            "case": case.kind,
            "rows": case.rows,
            "past": case.past,
            "new": case.new,
            "dtype": type_name(case.dtype),
            "cache": type_name(case.cache_dtype or case.dtype),
            "scales": case.quant_type,
            "heads": f"{case.num_heads}/{case.kv_num_heads}x{case.head_size}",
            "block_size": case.block_size,
            "threads": torch.get_num_threads(),
        }
        if self.skipped:
            return about | {"skipped": self.skipped}
        figures = {name: round(value, 3) for name, value in self.figures.items()}
        times = {name: round(value, 1) for name, value in self.times_us.items()}
        found = {"figures": figures, "fastest": dict(self.fastest), "us": times}
        return about | {"layers": self.layers} | found


def measure(case: Case, budget: Budget, backend: str = "cpu") -> Measurement:
    """Time a workload; skipped when the backend does not serve it or memory does not hold it."""
    count = 1 if case.kind == "call" else num_layers(case, last_level_cache_bytes())
    reason = unserved(case, backend) or _too_large(case, count)
    if reason:
        return Measurement(case, skipped=reason)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        groups = dict(_works(case, count, backend, pool))
        works = {
            f"{group}: {name}" if name else group: work
            for group, forms in groups.items()
            for name, work in forms.items()
        }
        samples = interleave(works, budget)
    fastest = {
        group: samples.fastest([f"{group}: {name}" for name in forms]).partition(": ")[2]
        for group, forms in groups.items()
        if "" not in forms
    }
    times = {name: samples.us(name) for name in samples.rounds}
    return Measurement(case, count, _figures(case, samples, fastest), times, fastest)


def unserved(case: Case, backend: str) -> str:
    """Return why a backend does not serve a workload, "" when it does."""
    small = replace(case, rows=1, past=15, new=1)
    ((inputs,), _) = make_layers(small, 1)
    signature = signature_of(inputs, small.attributes)
    named = [each for each in BACKENDS if each.name == backend]
    return named[0].unsupported(signature) or "" if named else f"there is no backend {backend}"


def _works(
    case: Case, count: int, backend: str, pool: ThreadPoolExecutor
) -> Iterator[tuple[str, dict[str, Work]]]:
    """Yield the operator's work and, by kind, the forms of each work that it is compared with."""
    layers, memory = make_layers(case, count)
    call = prepare(signature_of(layers[0], case.attributes), backend)
    yield "operator", {"": partial(_run, call, layers)}
    if case.kind == "call":
        yield "direct", {"": lambda _: paged_attention(layers[0], case.attributes)}
        return
    if case.new > 1:
        forms = ("enable_gqa", "expanded")
        yield "dense", {form: dense_attention(case, form) for form in forms}
        return
    yield "read", read_works(memory, pool)
    forms = ("enable_gqa", "grouped")
    yield "gather", {form: partial(_gather, layers, case, form) for form in forms}
    if case.cache_dtype is not None:
        twin = replace(case, cache_dtype=None, quant_type="NONE")
        others, _ = make_layers(twin, num_layers(twin, last_level_cache_bytes()))
        unquantized = prepare(signature_of(others[0], twin.attributes), backend)
        yield "unquantized", {"": partial(_run, unquantized, others)}


def _run(call: PreparedCall, layers: Layers, turn: int) -> object:
    return call.run(layers[turn % len(layers)])


def _gather(layers: Layers, case: Case, form: str, turn: int) -> object:
    return gather_and_attend(layers[turn % len(layers)], case, form)


def _figures(case: Case, samples: Samples, fastest: Mapping[str, str]) -> dict[str, float]:
    """Return the figures: operator against each kind of work, and rates of its own."""
    if case.kind == "call":
        return {"run_us": samples.us("operator"), "direct_us": samples.us("direct")}
    best = {group: f"{group}: {form}" for group, form in fastest.items()}
    figures = {
        ("of_read" if group == "read" else f"over_{group}"): samples.ratio(name, over="operator")
        for group, name in best.items()
    }
    if case.cache_dtype is not None:
        figures["over_unquantized"] = samples.ratio("unquantized", over="operator")
    operator_us = samples.us("operator")
    figures["tokens_per_s"] = case.rows * case.new / operator_us * 1e6
    if case.new == 1:
        figures["gb_per_s"] = case.pool_bytes / operator_us / 1e3
        figures["read_gb_per_s"] = case.pool_bytes / samples.us(best["read"]) / 1e3
    else:
        flop = 4 * case.visible_pairs * case.num_heads * case.head_size
        figures["gflop_per_s"] = flop / operator_us / 1e3
    return figures


def _too_large(case: Case, count: int) -> str:
    """Return why memory does not hold a workload, "" when it does."""
    numbers = case.pool_bytes // case.element_bytes
    needed = count * case.pool_bytes + _DENSE_COPIES * numbers * case.dtype.itemsize
    if case.cache_dtype is not None:
        needed += count * numbers * case.dtype.itemsize
    available = available_bytes()
    if needed <= available:
        return ""
    return f"memory: {needed >> 20} MiB needed, {available >> 20} MiB available"


def available_bytes(lines: Sequence[str] | None = None) -> int:
    """Return the memory that Linux can give, from /proc/meminfo; without it 4 GiB are assumed."""
    if lines is None:
        lines = _MEMORY.read_text().splitlines() if _MEMORY.exists() else []
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else 4 << 30
