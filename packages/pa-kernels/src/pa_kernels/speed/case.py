"""The workloads, and how fast each has to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from pa_spec import PagedAttentionAttributes

CONTEXTS = (512, 2048, 8192)
BATCHES = (1, 8, 32)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
QUANTIZED = (torch.int8, torch.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class Limit:
    """What one figure of a workload must reach: at least, or, where is_most, at most `value`."""

    figure: str
    value: float
    is_most: bool = False

    def is_met(self, found: float) -> bool:
        """Say whether a figure keeps the limit."""
        return found <= self.value if self.is_most else found >= self.value


@dataclass(frozen=True, slots=True)
class Case:
    """One workload: rows that hold `past` tokens and bring `new` ones.

    kind: decode, quantized, latent, prefill, chunk or call. cache_dtype: None = as the activations.
    quant_type: how many scales a quantized cache has. v_head_size: above 0 selects LATENT.
    """

    kind: str
    rows: int
    past: int
    new: int
    dtype: torch.dtype
    cache_dtype: torch.dtype | None = None
    quant_type: str = "NONE"
    num_heads: int = 32
    kv_num_heads: int = 8
    head_size: int = 128
    v_head_size: int = 0
    block_size: int = 16
    limits: tuple[Limit, ...] = ()

    @property
    def context(self) -> int:
        """Tokens of a row in the cache after the call."""
        return self.past + self.new

    @property
    def columns(self) -> int:
        """Block-table columns that a row fills."""
        return -(-self.context // self.block_size)

    @property
    def caches(self) -> int:
        """Caches of a layer: keys and values, or the latent rows alone."""
        return 1 if self.v_head_size else 2

    @property
    def element_bytes(self) -> int:
        """Bytes of one number in the caches."""
        return (self.cache_dtype or self.dtype).itemsize

    @property
    def pool_bytes(self) -> int:
        """Bytes of one layer's caches; a decode call reads them once."""
        slots = self.rows * self.columns * self.block_size
        return self.caches * slots * self.kv_num_heads * self.head_size * self.element_bytes

    @property
    def visible_pairs(self) -> int:
        """Pairs of a query and a key that it sees, over all rows."""
        return self.rows * (self.new * self.past + self.new * (self.new + 1) // 2)

    @property
    def attributes(self) -> PagedAttentionAttributes:
        """The operator's attributes."""
        is_latent = self.v_head_size > 0
        return PagedAttentionAttributes(
            num_heads=self.num_heads,
            kv_num_heads=self.kv_num_heads,
            scale=self.head_size**-0.5 if is_latent else 0.0,
            k_quant_type=self.quant_type,
            v_quant_type="NONE" if is_latent else self.quant_type,
            v_head_size=self.v_head_size,
            kv_cache_layout="LATENT" if is_latent else "SEPARATE",
        )

    @property
    def label(self) -> str:
        """Name for people: kind, rows, tokens, element types and heads."""
        cache = "" if self.cache_dtype is None else f"/{type_name(self.cache_dtype)}"
        scales = {"NONE": "", "PER_TENSOR": " tensor", "PER_CHANNEL": " channel"}[self.quant_type]
        size = f"{self.head_size}/{self.v_head_size}" if self.v_head_size else f"{self.head_size}"
        return (
            f"{self.kind} {self.rows} x {self.past}+{self.new} "
            f"{type_name(self.dtype)}{cache}{scales} {self.num_heads}/{self.kv_num_heads}x{size}"
        )


def type_name(dtype: torch.dtype) -> str:
    """Return the name of an element type without the library's."""
    return str(dtype).removeprefix("torch.")


def all_cases() -> Iterator[Case]:
    """Yield every workload, the small ones of a kind first."""
    yield from _call_cases()
    for context, rows in product(CONTEXTS, BATCHES):
        for dtype in FLOATS:
            # float16 is measured beside the others; the limit is theirs.
            reads = () if dtype == torch.float16 else (Limit("of_read", 0.7),)
            limits = (*reads, Limit("over_gather", 3.0))
            yield Case("decode", rows, context - 1, 1, dtype, limits=limits)
    for context, rows, cache, scales in product(
        CONTEXTS, BATCHES, QUANTIZED, ("PER_TENSOR", "PER_CHANNEL")
    ):
        limits = (Limit("over_unquantized", 1.6), Limit("over_gather", 3.0))
        yield Case("quantized", rows, context - 1, 1, torch.bfloat16, cache, scales, limits=limits)
    for context, rows, dtype in product(CONTEXTS, BATCHES, (torch.float32, torch.bfloat16)):
        yield latent_case(rows, context, dtype)
    for dtype in FLOATS:
        least = {torch.float32: 0.9, torch.bfloat16: 0.7}.get(dtype)
        limits = () if least is None else (Limit("over_dense", least),)
        yield Case("prefill", 1, 0, 2048, dtype, limits=limits)
    for past, dtype in product((512, 1536, 7680), FLOATS):
        yield Case("chunk", 1, past, 512, dtype)


def latent_case(rows: int, context: int, dtype: torch.dtype) -> Case:
    """Return decode as multi-head latent attention does it, absorbed: one KV head of 576."""
    return Case(
        "latent",
        rows,
        context - 1,
        1,
        dtype,
        num_heads=16,
        kv_num_heads=1,
        head_size=576,
        v_head_size=512,
    )


def _call_cases() -> Iterator[Case]:
    limit = Limit("run_us", 15.0, is_most=True)
    yield Case(
        "call", 1, 15, 1, torch.bfloat16, num_heads=9, kv_num_heads=3, head_size=64, limits=(limit,)
    )
