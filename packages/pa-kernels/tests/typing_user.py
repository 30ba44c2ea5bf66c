"""A user's file: it must type-check against the public names of pa_kernels."""

from __future__ import annotations

import numpy as np
from pa_kernels import (
    PreparedCall,
    explain,
    paged_attention,
    prepare,
    reference,
    sample_tokens,
    signature_of,
    uniform_from_counter,
)
from pa_spec import (
    Float64Array,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    SamplingBatch,
)
from torch import Tensor


def layers(
    inputs: list[PagedAttentionInputs[Tensor]], attributes: PagedAttentionAttributes
) -> list[Tensor]:
    call: PreparedCall = prepare(signature_of(inputs[0], attributes), backend="reference")
    reasons: list[str] = [verdict.reason for verdict in explain(call.signature)]
    assert reasons
    return [call.run(layer).output for layer in inputs]


def compare(inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes) -> Tensor:
    mine: PagedAttentionOutputs[Tensor] = paged_attention(inputs, attributes)
    return mine.output - reference.run(inputs, attributes).output


def sample(logits: Tensor) -> tuple[Tensor, Tensor | None]:
    counter = np.arange(len(logits), dtype=np.int64)
    uniform: Float64Array = uniform_from_counter(counter, counter, counter)
    temperature = np.ones(len(logits), dtype=np.float32)
    return sample_tokens(logits, SamplingBatch(temperature=temperature, uniform=uniform))
