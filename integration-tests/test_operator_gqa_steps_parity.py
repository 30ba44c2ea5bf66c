"""Step after step, GroupQueryAttention with its own caches and every backend with paged ones agree.

Method: three requests whose blocks are mixed; every step is one call of the node on a right-padded
batch (its query_seqlens) and one packed call of ours. Each side goes on from the caches that it
wrote itself: prompts, chunks, decode steps and pauses, in the node's own arithmetic of each type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from every_backend import Kernel, eligible
from gqa_oracle import Attribute, group_query_attention
from pa_kernels import signature_of
from pa_kernels.testing import expect_close, expect_stored
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

STEPS = ((7, 0, 30), (16, 3, 1), (1, 1, 1), (0, 17, 1), (1, 1, 1), (9, 1, 0))
"""New tokens of each request; blocks of 16, so that both prompts and steps cross their edges."""
BLOCK_SIZE, COLUMNS = 16, 4
BLOCK_TABLE = torch.randperm(12, generator=torch.Generator().manual_seed(1)).reshape(3, COLUMNS)
STORED = {
    "float32": (torch.float32, "NONE"),
    "float16": (torch.float16, "NONE"),
    "int8 per tensor": (torch.float32, "PER_TENSOR"),
    "int8 per channel": (torch.float32, "PER_CHANNEL"),
}


@dataclass(frozen=True)
class Model:
    """What both sides share: attributes, and the inputs that stay the same at every step."""

    attributes: PagedAttentionAttributes
    dtype: torch.dtype
    constants: dict[str, Tensor]

    @property
    def cache_dtype(self) -> torch.dtype:
        return torch.int8 if "k_scale" in self.constants else self.dtype

    def node_attributes(self) -> dict[str, Attribute]:
        names = ["num_heads", "kv_num_heads", "softcap", "local_window_size", "do_rotary"]
        names += ["rotary_interleaved", "k_quant_type", "v_quant_type"]
        found: dict[str, Attribute] = {name: getattr(self.attributes, name) for name in names}
        return found | {"kv_cache_bit_width": 8 if self.cache_dtype == torch.int8 else 0}


def model_of(stored: str, **attributes: int) -> Model:
    dtype, quant_type = STORED[stored]
    generator = torch.Generator().manual_seed(len(stored))
    angle = torch.arange(64)[:, None] * 100.0 ** (-torch.arange(8) / 8)
    constants = {
        "cos_cache": angle.cos().to(dtype),
        "sin_cache": angle.sin().to(dtype),
        "head_sink": torch.randn(6, generator=generator).to(dtype),
    }
    if quant_type != "NONE":
        shape = (1,) if quant_type == "PER_TENSOR" else (2, 1, 32)
        for name in ("k_scale", "v_scale"):
            constants[name] = 0.02 + 0.01 * torch.rand(shape, generator=generator)
    given = PagedAttentionAttributes(
        num_heads=6,
        kv_num_heads=2,
        softcap=8.0,
        # Turned keys differ in their last bit, and where that changes a code every later step would
        # differ by it: here nothing turns before it is quantized.
        do_rotary=int(quant_type == "NONE"),
        k_quant_type=quant_type,
        v_quant_type=quant_type,
        **attributes,  # type: ignore[arg-type]
    )
    return Model(given, dtype, constants)


def drawn_steps(dtype: torch.dtype) -> list[list[tuple[Tensor, Tensor, Tensor]]]:
    """Return query [n, H*D], key and value [n, K*D] of each request of each step."""
    generator = torch.Generator().manual_seed(4)

    def draw(count: int) -> tuple[Tensor, Tensor, Tensor]:
        drawn = torch.randn(count, 10 * 32, generator=generator).to(dtype)
        query, key, value = torch.split(drawn, [6 * 32, 2 * 32, 2 * 32], dim=1)
        return query, key, value

    return [[draw(count) for count in step] for step in STEPS]


class NodeSide:
    """The node, its caches [B, K, 64, D] as it left them, and how much of them it filled."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.past = torch.zeros(3, dtype=torch.int32)
        shape = (3, 2, BLOCK_SIZE * COLUMNS, 32)
        self.caches = [torch.zeros(shape, dtype=model.cache_dtype) for _ in range(2)]

    def step(self, requests: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
        """Run all requests in one padded call; return each one's own rows [n, H*D]."""
        new = torch.tensor([len(each[0]) for each in requests], dtype=torch.int32)
        query, key, value = (
            pad_sequence([each[part] for each in requests], batch_first=True) for part in range(3)
        )
        total = self.past + new
        tensors = {
            "query": query,
            "key": key,
            "value": value,
            "past_key": self.caches[0],
            "past_value": self.caches[1],
            "seqlens_k": total - 1,
            "total_sequence_length": total.max()[None],
            "query_seqlens": new,
        }
        # An idle request without a past has no length that the node admits; its caches stay.
        given = total > 0
        batched = [name for name in tensors if name != "total_sequence_length"]
        tensors |= {name: tensors[name][given] for name in batched}
        attributes = self._model.node_attributes()
        found = group_query_attention(tensors | self._model.constants, attributes)
        for cache, name in zip(self.caches, ("present_key", "present_value"), strict=True):
            cache[given] = found[name]
        self.past = total
        outputs = iter(found["output"])
        padded = [next(outputs) if each else query[0] for each in given.tolist()]
        return [rows[:count] for rows, count in zip(padded, new.tolist(), strict=True)]


class PagedSide:
    """One of our kernels with its pools [12, 16, K, D]."""

    def __init__(self, model: Model, kernel: Kernel) -> None:
        self._model, self._kernel = model, kernel
        self._past = torch.zeros(3, dtype=torch.int32)
        shape = (BLOCK_TABLE.numel(), BLOCK_SIZE, 2, 32)
        self.caches = [torch.zeros(shape, dtype=model.cache_dtype) for _ in range(2)]

    def step(self, requests: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        """Run all requests in one packed call; return [T, H*D]."""
        inputs = inputs_of(self._model, requests, self._past, self.caches)
        output = self._kernel.run(inputs, self._model.attributes).output
        self._past = self._past + inputs.cumulative_sequence_length.diff()
        return output

    def rows(self, index: int) -> list[Tensor]:
        """Return a request's keys and values [K, 64, D], in the order of their positions."""
        blocks = BLOCK_TABLE[index]
        return [cache[blocks].flatten(0, 1).transpose(0, 1) for cache in self.caches]


def inputs_of(
    model: Model,
    requests: Sequence[tuple[Tensor, Tensor, Tensor]],
    past: Tensor,
    caches: Sequence[Tensor],
) -> PagedAttentionInputs[Tensor]:
    counts = torch.tensor([0, *(len(each[0]) for each in requests)])
    query, key, value = (torch.cat([each[part] for each in requests]) for part in range(3))
    return PagedAttentionInputs(
        query=query,
        key=key,
        value=value,
        key_cache=caches[0],
        value_cache=caches[1],
        cumulative_sequence_length=counts.cumsum(0).int(),
        past_seqlens=past,
        block_table=BLOCK_TABLE.int(),
        **model.constants,
    )


@pytest.mark.parametrize("window", [-1, 12])
@pytest.mark.parametrize("is_interleaved", [0, 1], ids=["halves", "pairs"])
@pytest.mark.parametrize("stored", STORED)
def test_prompts_chunks_and_decode_steps_agree(
    stored: str, is_interleaved: int, window: int
) -> None:
    model = model_of(stored, rotary_interleaved=is_interleaved, local_window_size=window)
    steps = drawn_steps(model.dtype)
    for kernel in eligible_kernels(model, steps[0]):
        theirs, ours = NodeSide(model), PagedSide(model, kernel)
        for requests in steps:
            expected = theirs.step(requests)
            expect_close(ours.step(requests), torch.cat(expected))
        for index, length in enumerate(theirs.past.tolist()):
            for own, cache in zip(ours.rows(index), theirs.caches, strict=True):
                expect_stored(own[:, :length], cache[index, :, :length])


def eligible_kernels(
    model: Model, requests: Sequence[tuple[Tensor, Tensor, Tensor]]
) -> list[Kernel]:
    side = [torch.zeros(12, BLOCK_SIZE, 2, 32, dtype=model.cache_dtype) for _ in range(2)]
    inputs = inputs_of(model, requests, torch.zeros(3, dtype=torch.int32), side)
    return eligible(signature_of(inputs, model.attributes))
