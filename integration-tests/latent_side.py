"""Our operator as an attention layer: packed steps of several sequences over a paged cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from every_backend import Kernel
from latent_oracle import LatentLayer
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs
from torch import Tensor

BLOCK_SIZE, COLUMNS = 16, 5
MAX_TOKENS = BLOCK_SIZE * COLUMNS


@dataclass(frozen=True)
class LayerForm:
    """A way to spell the layer as a call. heads: query, key and value (or None) of new tokens.

    finish: from the operator's output to the layer's. kv_num_heads, head_size: of the caches.
    """

    attributes: PagedAttentionAttributes
    heads: Callable[[Tensor], tuple[Tensor, Tensor, Tensor | None]]
    finish: Callable[[Tensor], Tensor]
    head_size: int


def absorbed_form(layer: LatentLayer) -> LayerForm:
    """LATENT: one row of latent and turning channels for all heads."""
    sizes = layer.sizes

    def heads(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return (*layer.absorbed(hidden), None)

    head_size = sizes.latent + sizes.rope
    return LayerForm(layer.absorbed_attributes, heads, layer.from_absorbed, head_size)


def decompressed_form(layer: LatentLayer) -> LayerForm:
    """SEPARATE: keys and values of every head."""
    sizes = layer.sizes
    head_size = sizes.nope + sizes.rope
    attributes = layer.decompressed_attributes
    return LayerForm(attributes, layer.decompressed, layer.from_decompressed, head_size)


class LayerSide:
    """One kernel, its pools of shuffled blocks, and how much of them each sequence filled."""

    def __init__(self, layer: LatentLayer, form: LayerForm, num_sequences: int) -> None:
        self._form, self._tables = form, layer.rotary_tables(MAX_TOKENS)
        self._past = torch.zeros(num_sequences, dtype=torch.int32)
        shuffled = torch.randperm(
            num_sequences * COLUMNS, generator=torch.Generator().manual_seed(2)
        )
        self._block_table = shuffled.reshape(num_sequences, COLUMNS).int()
        attributes = form.attributes
        shape = (len(shuffled), BLOCK_SIZE, attributes.kv_num_heads, form.head_size)
        # Values of other models in slots that nobody owns yet.
        self.key_cache = torch.full(shape, torch.nan)
        is_latent = attributes.kv_cache_layout == "LATENT"
        self._value_cache = None if is_latent else torch.full(shape, torch.nan)

    def inputs(self, sequences: Sequence[Tensor]) -> PagedAttentionInputs[Tensor]:
        """Return the call of one step: new hidden states [n, hidden] of each sequence."""
        query, key, value = self._form.heads(torch.cat(list(sequences)))
        counts = torch.tensor([0, *map(len, sequences)])
        return PagedAttentionInputs(
            query=query,
            key=key,
            value=value,
            key_cache=self.key_cache,
            value_cache=self._value_cache,
            cumulative_sequence_length=counts.cumsum(0).int(),
            past_seqlens=self._past,
            block_table=self._block_table,
            cos_cache=self._tables[0],
            sin_cache=self._tables[1],
        )

    def step(self, sequences: Sequence[Tensor], kernel: Kernel) -> Tensor:
        """Run one step and go on from it; return the layer's output [T, hidden]."""
        inputs = self.inputs(sequences)
        output = kernel.run(inputs, self._form.attributes).output
        self._past = self._past + inputs.cumulative_sequence_length.diff()
        return self._form.finish(output)


def without_rotary(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
) -> tuple[PagedAttentionInputs[Tensor], PagedAttentionAttributes]:
    """Return the call for heads that the graph has turned already."""
    plain = replace(inputs, cos_cache=None, sin_cache=None)
    return plain, replace(attributes, do_rotary=0, rotary_offset=0)
