"""Random calls of the operator that look like a server's, not like a benchmark's."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import torch
from pa_spec import (
    CallSignature,
    PagedAttentionAttributes,
    PagedAttentionInputs,
)
from torch import Tensor

from pa_kernels.signature import signature_of
from pa_kernels.testing.options import ProblemOptions, random_options
from pa_kernels.testing.table import Layout, draw_layout


@dataclass(frozen=True, slots=True)
class PagedProblem:
    """One call: tensors and attributes. Running it changes its caches; clone it first."""

    options: ProblemOptions
    inputs: PagedAttentionInputs[Tensor]
    attributes: PagedAttentionAttributes

    @property
    def signature(self) -> CallSignature:
        """The call's signature."""
        return signature_of(self.inputs, self.attributes)

    def clone(self, device: str = "cpu") -> PagedProblem:
        """Return the same call with caches of its own, on a device."""
        moved = {
            name: tensor if tensor is None or name == "attention_metadata" else tensor.to(device)
            for name, tensor in self.inputs.named()
        }
        for name in ("key_cache", "value_cache"):
            cache = moved[name]
            moved[name] = None if cache is None else cache.clone()
        return replace(self, inputs=PagedAttentionInputs(**moved))  # type: ignore[arg-type]

    def __str__(self) -> str:
        shown = (
            f"{field.name}={getattr(self.options, field.name)}"
            for field in fields(self.options)
            if getattr(self.options, field.name) != field.default
        )
        return f"PagedProblem({', '.join(shown)})"


def random_paged_problem(seed: int, options: ProblemOptions | None = None) -> PagedProblem:
    """Draw a call: shuffled and shared blocks, -1 rows, zero-token rows, lengths at block edges.

    Slots that no row owns hold NaN (quantized caches: extreme codes), unused table entries hold
    -1 or ids out of range, and blocks that the window has left may be unmapped. options: None
    draws them too.
    """
    options = options or random_options(seed)
    rng = np.random.default_rng([seed, 1])
    torch_rng = torch.Generator().manual_seed(seed)
    layout = draw_layout(rng, options)
    query, key, value = _draw_tokens(options, layout.num_tokens, torch_rng)
    key_cache, value_cache = _draw_caches(options, layout, torch_rng)
    cos_cache, sin_cache = _draw_rotary(options, layout.max_context + 8)
    query_positions = None
    if options.has_query_positions:
        shifted = layout.position + rng.integers(-2, 4, size=layout.num_tokens)
        query_positions = torch.from_numpy(shifted.clip(min=0).astype(np.int32))
    extras = _draw_extras(options, layout, torch_rng)
    inputs = PagedAttentionInputs(
        query=query,
        key=key,
        value=value,
        key_cache=key_cache,
        value_cache=value_cache,
        cumulative_sequence_length=torch.from_numpy(layout.boundaries),
        past_seqlens=torch.from_numpy(layout.past),
        block_table=torch.from_numpy(layout.table),
        cos_cache=cos_cache,
        sin_cache=sin_cache,
        slot_mapping=torch.from_numpy(layout.slot_mapping) if options.has_slot_mapping else None,
        query_positions=query_positions,
        **extras,
    )
    return PagedProblem(options, inputs, options.attributes)


def _draw_tokens(
    options: ProblemOptions, num_tokens: int, rng: torch.Generator
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    q_width = options.num_heads * options.head_size
    kv_width = options.kv_num_heads * options.head_size
    has_value = not options.is_latent
    widths = [q_width, kv_width] + [kv_width] * has_value
    pad = 8 if options.is_strided else 0
    fused = torch.randn(num_tokens, sum(widths) + pad, generator=rng).to(options.dtype)
    if options.is_packed and has_value:
        return fused[:, : sum(widths)], None, None
    edges = np.cumsum([0, *widths]).tolist()
    parts = [fused[:, left:right] for left, right in pairwise(edges)]
    if not options.is_strided:
        parts = [part.contiguous() for part in parts]
    return parts[0], parts[1], parts[2] if has_value else None


def _draw_caches(
    options: ProblemOptions, layout: Layout, rng: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    dtype = options.cache_dtype or options.dtype
    caches = []
    for _ in range(1 if options.is_latent else 2):
        rows = torch.randn(
            layout.num_blocks * options.block_size,
            options.kv_num_heads,
            options.head_size,
            generator=rng,
        )
        if dtype == torch.int8:
            rows = (rows * 40).round().clamp(-128, 127)
        elif dtype == torch.float8_e4m3fn:
            rows = rows * 40
        is_filled = torch.from_numpy(layout.is_filled)[:, None, None]
        rows = rows.where(is_filled, -128.0 if dtype == torch.int8 else torch.nan)
        caches.append(
            rows.to(dtype).reshape(layout.num_blocks, options.block_size, *rows.shape[1:])
        )
    return caches[0], caches[1] if len(caches) > 1 else None


def _draw_rotary(options: ProblemOptions, positions: int) -> tuple[Tensor | None, Tensor | None]:
    half = options.rotary_dim // 2
    if half == 0:
        return None, None
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(options.dtype), angle.sin().to(options.dtype)


def _draw_extras(
    options: ProblemOptions, layout: Layout, rng: torch.Generator
) -> dict[str, Tensor]:
    extras: dict[str, Tensor] = {}
    size, heads, kv_heads = options.head_size, options.num_heads, options.kv_num_heads
    if options.has_qk_norm:
        for name in ("q_norm_weight", "k_norm_weight"):
            extras[name] = (1 + 0.2 * torch.randn(size, generator=rng)).to(options.dtype)
    if options.has_sink:
        # Up to the size of a whole context's sum, so that a sink matters beside thousands of keys.
        highest = math.log(layout.max_context) * torch.rand(heads, generator=rng)
        extras["head_sink"] = (torch.randn(heads, generator=rng) + highest).to(options.dtype)
    for name, quant_type in (
        ("k_scale", options.quant_type),
        ("v_scale", options.value_quant_type),
    ):
        if quant_type != "NONE":
            shape = (1,) if quant_type == "PER_TENSOR" else (kv_heads, 1, size)
            extras[name] = 0.02 + 0.01 * torch.rand(shape, generator=rng)
    if options.metadata_entries:
        bounds = (layout.max_new, layout.max_context, 0)[: options.metadata_entries]
        extras["attention_metadata"] = torch.tensor(bounds, dtype=torch.int32)
    if options.has_bias:
        batch = layout.past.shape[0] if layout.num_tokens % 2 else 1
        bias_heads = 1 if options.is_bias_of_all_heads else heads
        bias_shape = (batch, bias_heads, layout.max_new, layout.max_context + 3)
        extras["attention_bias"] = torch.randn(bias_shape, generator=rng).to(options.dtype)
    return extras
