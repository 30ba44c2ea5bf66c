"""Whole problems: every feature of the contract, in combinations that are legal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch

from pa_kernels.testing.options import GROUP_SIZES, ProblemOptions

T = TypeVar("T")

HEAD_SIZES = (8, 16, 24, 32, 40, 64, 72, 80, 96, 112, 128, 192, 256, 320, 576)
BLOCK_SIZES = (16, 32, 64, 128, 256, 512)
WINDOWS = (0, 1, 2, 16, 17, 63, 64, 65, 130, 1000, 5000)
LONG_PASTS = (1000, 1023, 1024, 1025, 2047, 2100, 3000)

# The oracle in float64 needs about a tenth of a second for so many products, and so many cached
# elements.
_MAX_PRODUCTS = 1.5e8
_MAX_CACHED = 1_500_000
_MAX_QUERY_WIDTH = 16_384


class Choose(Protocol):
    """Picks one of several values; the first one is the simplest."""

    def __call__(self, items: Sequence[T], /) -> T:
        """Return one of the items."""


def random_whole_options(seed: int) -> ProblemOptions:
    """Draw the options of a whole problem."""
    rng = np.random.default_rng([seed, 2])

    def choose(items: Sequence[T], /) -> T:
        return items[int(rng.integers(len(items)))]

    return draw_options(choose)


def draw_options(choose: Choose) -> ProblemOptions:
    """Draw the options of a whole problem: features, sizes and the lengths of its rows.

    choose: where the randomness comes from, so that a property test can make a problem smaller.
    """
    options = _with_heads(ProblemOptions(), choose)
    options = _with_types(options, choose)
    options = _with_prologue(options, choose)
    options = _with_masks(options, choose)
    options = replace(options, rows=_draw_rows(options, choose))
    return replace(
        options,
        is_strided=choose((False, True)),
        has_slot_mapping=choose((False, True)),
        has_padding_row=choose((False, False, False, True)),
        has_holes=choose((False, False, True)),
        metadata_entries=choose((0, 2, 3)),
    )


def _with_heads(options: ProblemOptions, choose: Choose) -> ProblemOptions:
    is_latent = choose((False, False, False, True))
    group, size = choose(GROUP_SIZES), choose(HEAD_SIZES)
    fitting = [heads for heads in (1, 2, 3, 4, 8) if heads * group * size <= _MAX_QUERY_WIDTH]
    kv_heads = 1 if is_latent else choose(fitting or [1])
    # 512 of 576, as in DeepSeek; a whole head; one vector and less.
    v_head_sizes = sorted({max(8, size * 8 // 9 // 8 * 8), size, 8})
    return replace(
        options,
        num_heads=kv_heads * group,
        kv_num_heads=kv_heads,
        head_size=size,
        v_head_size=choose(v_head_sizes) if is_latent else 0,
        block_size=choose(BLOCK_SIZES),
        is_packed=not is_latent and choose((False, True)),
    )


def _with_types(options: ProblemOptions, choose: Choose) -> ProblemOptions:
    dtype = choose((torch.float32, torch.bfloat16, torch.float16))
    cache_dtype = choose((None, None, torch.int8, torch.float8_e4m3fn))
    if cache_dtype is None:
        return replace(options, dtype=dtype)
    granularities = ("PER_TENSOR", "PER_CHANNEL")
    quant_type, v_quant_type = choose(granularities), choose(granularities)
    return replace(
        options,
        dtype=dtype,
        cache_dtype=cache_dtype,
        quant_type=quant_type,
        v_quant_type="" if options.is_latent else v_quant_type,
    )


def _with_prologue(options: ProblemOptions, choose: Choose) -> ProblemOptions:
    options = replace(
        options,
        has_qk_norm=not options.is_latent and choose((False, True)),
        has_query_positions=choose((False, False, True)),
    )
    size = options.head_size
    # All channels, the first ones, or some in the middle or at the end.
    offset = choose([0, *range(8, size, 8)][:10])
    rotary_dim = choose([0, size - offset, 8, (size - offset) // 16 * 8])
    if rotary_dim == 0:
        return options
    return replace(
        options,
        rotary_dim=rotary_dim,
        rotary_offset=offset,
        rotary_interleaved=choose((False, True)),
    )


def _with_masks(options: ProblemOptions, choose: Choose) -> ProblemOptions:
    # Logits have a deviation of 1 to 2; much larger ones leave one key alone, and errors unseen.
    sharpness = choose((0.0, 1.0, 2.0))
    width = options.head_size
    if options.is_latent and sharpness == 0.0:
        sharpness = 1.0
    return replace(
        options,
        scale=sharpness / math.sqrt(width),
        softcap=choose((0.0, 0.0, 3.0, 30.0)),
        window_tokens=choose(WINDOWS),
        has_sink=not options.is_latent and choose((False, True)),
        has_bias=choose((False, False, False, False, True)),
        is_bias_of_all_heads=choose((False, True)),
        qk_output=choose((0, 0, 0, 0, 0, 1, 2)),
    )


def _draw_rows(options: ProblemOptions, choose: Choose) -> tuple[tuple[int, int], ...]:
    """Draw (past, new) of each row: one of the shapes of a server's batch."""
    size, window = options.block_size, options.window_tokens
    edges = (0, 1, size - 1, size, size + 1, 2 * size - 1, 63, 64, 65, 128, 129)
    around = [past for past in (window - 2, window - 1, window, window + 1) if past > 0]
    pasts = [*edges, *around]
    kind = choose(("decode", "mixed", "prefill", "long"))
    count = choose((1, 2, 3, 5, 8))
    if kind == "decode":
        # At most as many tokens as rows, which is how a backend sees decoding.
        rows = [(choose(pasts), choose((1, 1, 1, 0))) for _ in range(count)]
    elif kind == "prefill":
        news = (2, 17, size - 1, size, size + 1, 130, 257, *around)
        rows = [(0, choose(news)) for _ in range(min(count, 2))]
    else:
        news = (0, 1, 1, 2, 3, 5, size - 1, size, size + 1, 66)
        rows = [(choose(pasts), choose(news)) for _ in range(count)]
    if kind == "long":
        rows = [(choose(LONG_PASTS), choose((1, 1, 2, 5, 70, 0))), *rows[:2]]
    if not any(new for _, new in rows):
        rows.append((0, 1))
    return _affordable(options, rows)


def _affordable(
    options: ProblemOptions, rows: list[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Shorten rows so that the oracle's time stays small; the first ones keep their lengths."""
    key_width = options.kv_num_heads * options.head_size
    tokens_left, products_left = _MAX_CACHED // key_width, _MAX_PRODUCTS
    affordable = []
    for past, new in rows:
        shorter = min(past, tokens_left)
        product = options.num_heads * options.head_size * (shorter + new + 1)
        fewer = min(new, max(1, int(products_left / product)), tokens_left - shorter + 1)
        affordable.append((shorter, fewer))
        tokens_left = max(1, tokens_left - shorter - fewer)
        products_left = max(0.0, products_left - product * fewer)
    return tuple(affordable)
