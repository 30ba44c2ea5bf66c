"""Calls written down number by number, for examples that are worked out by hand.

A head is a list of its first channels, the rest of them zero; a token is a list of heads. One row:
`past` tokens lie in the cache, then come the new ones. Blocks of 16 stand in the pool as 2, 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import pytest
import torch
from every_backend import Kernel, eligible, int32
from pa_kernels import signature_of
from pa_kernels.testing import expect_close
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor

BLOCK = 16
TABLE = ((2, 0),)
LN2, LN3, LN4, LN5, LN7 = (log(number) for number in (2, 3, 4, 5, 7))

Token = Sequence[Sequence[float]]
Build = Callable[[torch.dtype], "HandCall"]


@dataclass(frozen=True)
class HandCall:
    """One call; running it changes its caches."""

    inputs: PagedAttentionInputs[Tensor]
    attributes: PagedAttentionAttributes

    def run(self, kernel: Kernel) -> PagedAttentionOutputs[Tensor]:
        """Run on the call's own caches."""
        return kernel.run(self.inputs, self.attributes)

    def expect(self, kernel: Kernel, *tokens: Token) -> None:
        """Run, and compare the output, token by token and head by head, zeros left out."""
        output = self.run(kernel).output
        width = output.shape[1] // self.attributes.num_heads
        expect_close(output, matrix(tokens, width).double())

    def stored(self, name: str, position: int, head: int = 0) -> list[float]:
        """Return what a cache holds for a position of the row, as it is stored."""
        cache: Tensor = getattr(self.inputs, name)
        block_id = int(self.inputs.block_table[0, position // BLOCK])
        numbers: list[float] = cache[block_id, position % BLOCK, head].double().tolist()
        return numbers


def matrix(tokens: Sequence[Token], size: int) -> Tensor:
    """Return [tokens, heads * size] with zeros where nothing is written."""
    heads = [[list(head) + [0.0] * (size - len(head)) for head in token] for token in tokens]
    return torch.tensor(heads, dtype=torch.float64).flatten(1)


@dataclass(frozen=True)
class Tokens:
    """What a row's tokens hold; keys and values begin with those that the cache has already."""

    query: Sequence[Token]
    key: Sequence[Token]
    value: Sequence[Token] = ()
    size: int = 8


def hand_call(dtype: torch.dtype, tokens: Tokens, **given: Any) -> HandCall:
    """Lay tokens out as a call; given: attributes, and inputs as tensors.

    cache_dtype: what the caches hold, by default `dtype`. In LATENT there are no values.
    """
    cache_dtype = given.pop("cache_dtype", dtype)
    past, size = len(tokens.key) - len(tokens.query), tokens.size
    num_heads, kv_num_heads = len(tokens.query[0]), len(tokens.key[0])
    table = int32(*TABLE[0])[None]
    made: dict[str, Tensor] = {"query": matrix(tokens.query, size).to(dtype)}
    for name, rows in (("key", tokens.key), ("value", tokens.value)):
        if not rows:
            continue
        numbers = matrix(rows, size)
        made[name] = numbers[past:].to(dtype)
        cache = torch.empty(3, BLOCK, kv_num_heads, size, dtype=cache_dtype)
        # NaN in every float type: a slot that nobody may read shows.
        cache.view(torch.uint8).fill_(0xFF)
        for position in range(past):
            block_id = int(table[0, position // BLOCK])
            heads = numbers[position].view(kv_num_heads, size)
            cache[block_id, position % BLOCK] = heads.float().to(cache_dtype)
        made[f"{name}_cache"] = cache
    names = {name for name, _ in PagedAttentionInputs(*[torch.empty(0)] * 8).named()}
    inputs = {name: given.pop(name) for name in list(given) if name in names}
    whole: dict[str, Any] = {
        "value": None,
        "value_cache": None,
        "cumulative_sequence_length": int32(0, len(tokens.query)),
        "past_seqlens": int32(past),
        "block_table": table,
    }
    attributes = PagedAttentionAttributes(num_heads, kv_num_heads, **{"scale": 1.0, **given})
    return HandCall(PagedAttentionInputs(**{**whole, **made, **inputs}), attributes)


def by_hand(build: Build, *dtypes: torch.dtype) -> pytest.MarkDecorator:
    """Parametrize a test with `call` and `kernel`: every element type on all that serve it."""
    rows = []
    for dtype in dtypes or (torch.float32, torch.bfloat16, torch.float16):
        signature = signature_of(build(dtype).inputs, build(dtype).attributes)
        rows += [
            pytest.param(build(dtype), kernel, id=f"{str(dtype).removeprefix('torch.')}-{kernel}")
            for kernel in eligible(signature)
        ]
    return pytest.mark.parametrize(("call", "kernel"), rows)


def packed(call: HandCall) -> HandCall:
    """Return the call with query, key and value as one matrix."""
    parts = [call.inputs.query, call.inputs.key, call.inputs.value]
    whole = torch.cat([part for part in parts if part is not None], dim=1)
    return replace(call, inputs=replace(call.inputs, query=whole, key=None, value=None))
