"""The whole operator, in readable torch."""

from __future__ import annotations

import torch
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor

from pa_kernels.geometry import CallGeometry
from pa_kernels.reference.attention import Row, attend_row
from pa_kernels.reference.prologue import normalize_and_rotate, split_heads, store
from pa_kernels.reference.rows import token_places
from pa_kernels.signature import signature_of
from pa_kernels.values import check_host_values

_QK_PROBABILITIES = 2


def run(
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    compute_dtype: torch.dtype = torch.float32,
) -> PagedAttentionOutputs[Tensor]:
    """Compute a call whose signature keeps the contract; the oracle of every backend.

    The caches are updated in place, in their own element type. Outputs come unrounded, in
    compute_dtype (float32 or float64).

    Raises ContractViolation for bad lengths, before the first store (V65, V66, V67, V105).
    """
    geometry = CallGeometry.of(signature_of(inputs, attributes))
    check_host_values(inputs, attributes)
    places = token_places(inputs)
    heads = split_heads(inputs, geometry, compute_dtype)
    heads = normalize_and_rotate(heads, inputs, attributes, places)
    # Every store of the call comes before attention: rows may share blocks.
    store(heads, inputs, places.slot)

    device = inputs.query.device
    output = torch.empty(geometry.output_shape, dtype=compute_dtype, device=device)
    output_qk = _empty_qk(attributes, geometry, output) if attributes.qk_output else None
    boundaries = inputs.cumulative_sequence_length.tolist()
    past = inputs.past_seqlens.tolist()
    for index in range(geometry.batch_size):
        tokens = slice(boundaries[index], boundaries[index + 1])
        count = tokens.stop - tokens.start
        if count == 0:
            continue
        row = Row(index, heads.query[tokens], places.position[tokens], past[index] + count)
        result = attend_row(row, inputs, attributes, geometry)
        output[tokens] = result.output.flatten(1)
        if output_qk is not None:
            is_probability = attributes.qk_output == _QK_PROBABILITIES
            scores = result.probabilities if is_probability else result.logits
            width = min(geometry.context_columns, row.context_tokens)
            output_qk[:, tokens, :width] = scores[..., :width]
    return PagedAttentionOutputs(output, output_qk)


def _empty_qk(
    attributes: PagedAttentionAttributes, geometry: CallGeometry, output: Tensor
) -> Tensor:
    masked = 0.0 if attributes.qk_output == _QK_PROBABILITIES else -torch.inf
    return output.new_full(geometry.output_qk_shape, masked)
