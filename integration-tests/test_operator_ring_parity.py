"""torch's scaled_dot_product_attention agrees where there is a ring of blocks, or no token at all.

Method: a sequence that grows token by token in a ring of blocks is compared, at every step, with
dense attention over the last keys and values, which no cache has seen.
"""

from __future__ import annotations

import pytest
import torch
from every_backend import KERNELS, Kernel, int32
from pa_kernels import signature_of
from pa_kernels.testing import expect_close
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

HEADS, KV_HEADS, SIZE, BLOCK = 4, 2, 16, 16
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def call_of(tokens: Tensor, caches: list[Tensor], **given: Tensor) -> PagedAttentionInputs[Tensor]:
    """tokens: [n, H + 2K, D] float32 of one row."""
    query, key, value = torch.split(tokens, [HEADS, KV_HEADS, KV_HEADS], dim=1)
    return PagedAttentionInputs(
        query=query.flatten(1),
        key=key.flatten(1),
        value=value.flatten(1),
        key_cache=caches[0],
        value_cache=caches[1],
        cumulative_sequence_length=int32(0, len(tokens)),
        **given,
    )


def dense(tokens: Tensor, first: int, last: int) -> Tensor:
    """Attend from the token `last` to the tokens `first` to `last`: [1, H * D]."""
    seen = tokens[first : last + 1].transpose(0, 1)
    query, key, value = torch.split(seen, [HEADS, KV_HEADS, KV_HEADS])
    found = scaled_dot_product_attention(query[:, -1:], key, value, enable_gqa=True)
    return found.transpose(0, 1).flatten(1)


@every_kernel
@pytest.mark.parametrize("window", [1, 15, 16, 17, 20, 32])
def test_a_ring_of_blocks_agrees_at_every_step(kernel: Kernel, window: int) -> None:
    tokens = torch.randn(70, HEADS + 2 * KV_HEADS, SIZE, generator=torch.Generator().manual_seed(1))
    ring = torch.randperm(7, generator=torch.Generator().manual_seed(2))[: -(-window // BLOCK) + 1]
    caches = [torch.full((7, BLOCK, KV_HEADS, SIZE), torch.nan) for _ in range(2)]
    attributes = PagedAttentionAttributes(HEADS, KV_HEADS, local_window_size=window)

    for past in range(len(tokens)):
        newest = past // BLOCK
        table = torch.full((1, 5), -1, dtype=torch.int32)
        for index in range(max(0, newest - len(ring) + 1), newest + 1):
            table[0, index] = ring[index % len(ring)]
        slot = int32(int(ring[newest % len(ring)]) * BLOCK + past % BLOCK)
        given = {"past_seqlens": int32(past), "block_table": table, "slot_mapping": slot}
        output = kernel.run(call_of(tokens[past : past + 1], caches, **given), attributes).output
        expect_close(output, dense(tokens, max(0, past - window + 1), past))


@every_kernel
def test_a_call_without_tokens_has_the_shape_of_attention_without_queries(kernel: Kernel) -> None:
    caches = [torch.ones(2, BLOCK, KV_HEADS, SIZE) for _ in range(2)]
    attributes = PagedAttentionAttributes(HEADS, KV_HEADS)
    given = {"past_seqlens": int32(5), "block_table": int32(1, -1)[None]}
    inputs = call_of(torch.empty(0, HEADS + 2 * KV_HEADS, SIZE), caches, **given)
    assert kernel.serves(signature_of(inputs, attributes))

    output = kernel.run(inputs, attributes).output

    key = torch.ones(KV_HEADS, 5, SIZE)
    expected = scaled_dot_product_attention(torch.empty(HEADS, 0, SIZE), key, key, enable_gqa=True)
    assert output.shape == expected.transpose(0, 1).flatten(1).shape
    assert all(bool((cache == 1).all()) for cache in caches)
