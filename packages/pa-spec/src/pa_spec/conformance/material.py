"""From a signature to arrays that have it, with contents that break no rule by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pa_spec.conformance.call import OperatorCall, signature_of
from pa_spec.conformance.element import Array, encode, is_integer, storage_dtype
from pa_spec.operator import CallSignature, PagedAttentionInputs, TensorSignature


def call_of(signature: CallSignature, values: Mapping[str, Any]) -> OperatorCall:
    """Make a call of these shapes, types and strides; values: contents that are given instead."""
    arrays: dict[str, Any] = {}
    for name, tensor in signature.inputs.named():
        if tensor is None:
            arrays[name] = None
        elif name in values:
            arrays[name] = encode(values[name], tensor.element_type)
        else:
            arrays[name] = _array(name, tensor, signature)
    inputs: PagedAttentionInputs[Array] = PagedAttentionInputs(**arrays)
    types = {name: each.element_type for name, each in signature.inputs.named() if each}
    described = signature_of(inputs, types, signature.attributes, signature.output_qk_type)
    return OperatorCall(inputs, described)


def _array(name: str, tensor: TensorSignature, signature: CallSignature) -> Array:
    shape = tensor.shape
    if name == "attention_metadata" and signature.metadata is not None:
        return np.array(signature.metadata, storage_dtype(tensor.element_type))
    array = _strided(tensor)
    if name == "cumulative_sequence_length" and shape[0] > 1:
        array[1:] = signature.num_tokens
    elif name == "block_table":
        blocks = max(1, signature.inputs.key_cache.shape[0])
        array[...] = np.arange(array.size).reshape(shape) % blocks
    elif name == "slot_mapping":
        array[...] = -1
    elif name in ("k_scale", "v_scale"):
        array[...] = encode(1.0, tensor.element_type)
    elif not (is_integer(tensor.element_type) or name in ("key_cache", "value_cache")):
        # Something that would show in a cache if it were stored.
        array[...] = encode(0.5, tensor.element_type)
    return array


def _strided(tensor: TensorSignature) -> Array:
    """Return zeros of a shape with the strides that the signature tells."""
    dtype, shape = storage_dtype(tensor.element_type), tensor.shape
    if not tensor.contiguous_inner:
        return np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    if tensor.row_stride and len(shape) == 2:
        return np.zeros((shape[0], tensor.row_stride), dtype)[:, : shape[1]]
    if tensor.row_stride:
        return np.zeros((*shape[:-2], 2 * shape[-2], shape[-1]), dtype)[..., : shape[-2], :]
    return np.zeros(shape, dtype)
