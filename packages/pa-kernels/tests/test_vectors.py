"""The contract's golden vectors, on every backend of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pa_kernels import prepare, signature_of
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, vectors
from torch import Tensor


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


def run_window(
    backend: str, window: int, caches: tuple[Tensor, Tensor], step: dict[str, Tensor]
) -> Tensor:
    """Attend with a window; the step's tensors replace or add to the inputs."""
    inputs = PagedAttentionInputs(key_cache=caches[0], value_cache=caches[1], **step)
    attributes = PagedAttentionAttributes(2, 1, local_window_size=window)
    return prepare(signature_of(inputs, attributes), backend).run(inputs).output


def steps_of(past: int, tokens: int) -> list[tuple[int, int]]:
    """Cut a sequence of past + tokens into steps of `tokens`, the last of them at past."""
    first = past % tokens
    starts = [0, *range(first, past + tokens, tokens)] if first else range(0, past + tokens, tokens)
    ends = [*list(starts)[1:], past + tokens]
    return list(zip(starts, ends, strict=True))


def tokens_of(seed: int, count: int) -> dict[str, Tensor]:
    """Draw queries of two heads, keys and values of one."""
    generator = torch.Generator().manual_seed(seed)
    widths = {"query": 16, "key": 8, "value": 8}
    return {name: torch.randn(count, width, generator=generator) for name, width in widths.items()}


def unwritten(blocks: int, block_size: int) -> tuple[Tensor, Tensor]:
    """Return a key cache and a value cache in which no slot may be read."""
    cache = torch.full((blocks, block_size, 1, 8), torch.nan)
    return cache, cache.clone()


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.spec("E101", "E102", "E103", "E104")
@pytest.mark.parametrize("case", vectors("ring_positions"), ids=lambda case: case["id"])
def test_a_ring_attends_as_a_full_table_does(host_backend: str, case: Mapping[str, Any]) -> None:
    """The whole sequence in steps of at most C tokens, through a ring and a full table."""
    size, past, chunk = case["block_size"], case["past"], case["chunk"]
    blocks = -(-(past + chunk) // size)
    full, ring = unwritten(blocks, size), unwritten(max(case["ring"]) + 1, size)
    table = [case["ring"][column % len(case["ring"])] for column in range(blocks)]
    drawn = tokens_of(7, past + chunk)

    for first, end in steps_of(past, chunk):
        step = {name: rows[first:end] for name, rows in drawn.items()}
        step |= {"cumulative_sequence_length": ints(0, end - first), "past_seqlens": ints(first)}
        expected = run_window(
            host_backend,
            case["window"],
            full,
            step | {"block_table": ints(*range(blocks))[None]},
        )
        found = run_window(
            host_backend, case["window"], ring, step | {"block_table": ints(*table)[None]}
        )
        torch.testing.assert_close(found, expected)

    # What the last step left is where the contract says that it is.
    for position, slot in zip(case["live_positions"], case["slots"], strict=True):
        assert torch.equal(ring[0].flatten(0, 1)[slot, 0], drawn["key"][position])


@pytest.mark.parametrize("case", vectors("rolling_window"), ids=lambda case: case["id"])
def test_a_rolling_window_attends_as_a_full_table_does(
    host_backend: str, case: Mapping[str, Any]
) -> None:
    """The step of the vector: what it needs of the past lies where its table says."""
    size, past, tokens, window = (case[name] for name in ("block_size", "past", "tokens", "window"))
    columns = len(case["table"])
    full, rolling = unwritten(columns, size), unwritten(max(case["ring"]) + 1, size)
    drawn = tokens_of(8, past + tokens)
    for cache, small, name in zip(full, rolling, ("key", "value"), strict=True):
        for position in range(max(0, past - window + 1), past):
            column, offset = divmod(position, size)
            cache[column, offset, 0] = drawn[name][position]
            small[case["table"][column], offset, 0] = drawn[name][position]
    step = {name: rows[past:] for name, rows in drawn.items()}
    step |= {"cumulative_sequence_length": ints(0, tokens), "past_seqlens": ints(past)}

    expected = run_window(
        host_backend, window, full, step | {"block_table": ints(*range(columns))[None]}
    )
    found = run_window(
        host_backend,
        window,
        rolling,
        step
        | {
            "block_table": ints(*case["table"])[None],
            "slot_mapping": ints(*case["slot_mapping"]),
        },
    )

    torch.testing.assert_close(found, expected)
    for place, slot in enumerate(case["slot_mapping"]):
        assert torch.equal(rolling[0].flatten(0, 1)[slot, 0], drawn["key"][past + place])
