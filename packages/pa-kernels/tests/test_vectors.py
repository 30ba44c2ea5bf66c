"""The contract's golden vectors, on every backend of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pa_kernels import prepare, signature_of
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, vectors


@pytest.mark.parametrize("case", vectors("derived_slots"), ids=lambda case: case["id"])
def test_tokens_are_stored_in_their_derived_slots(
    host_backend: str, case: Mapping[str, Any]
) -> None:
    tokens, block_size = len(case["slots"]), case["block_size"]
    marks = torch.arange(1, tokens + 1, dtype=torch.float32)[:, None].repeat(1, 8)
    caches = [torch.zeros(case["num_blocks"], block_size, 1, 8) for _ in range(2)]
    inputs = PagedAttentionInputs(
        query=torch.zeros(tokens, 8),
        key=marks,
        value=marks,
        key_cache=caches[0],
        value_cache=caches[1],
        cumulative_sequence_length=torch.tensor(
            case["cumulative_sequence_length"], dtype=torch.int32
        ),
        past_seqlens=torch.tensor(case["past_seqlens"], dtype=torch.int32),
        block_table=torch.tensor(case["block_table"], dtype=torch.int32),
    )

    prepare(signature_of(inputs, PagedAttentionAttributes(1, 1)), host_backend).run(inputs)

    expected = torch.zeros(case["num_blocks"] * block_size)
    for token, slot in enumerate(case["slots"]):
        if slot >= 0:
            expected[slot] = token + 1
    for cache in caches:
        assert torch.equal(cache.flatten(0, 1)[:, 0, 0], expected)
