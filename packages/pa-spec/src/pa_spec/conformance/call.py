"""One call of the operator as arrays, and what it needs of an implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pa_spec.conformance.element import Array
from pa_spec.element_type import ElementType
from pa_spec.operator import (
    CallSignature,
    KvCacheLayout,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    TensorSignature,
)


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """What an operator is given: arrays, and the signature that says what they are.

    inputs: arrays in the storage of their element types (see `pa_spec.conformance.encode`); the
    caches are to be updated in place, nothing else may be. signature: element types and shapes,
    attributes, and the element type of output 3 when it is asked for.
    """

    inputs: PagedAttentionInputs[Array]
    signature: CallSignature

    @property
    def attributes(self) -> PagedAttentionAttributes:
        """The operator's attributes."""
        return self.signature.attributes

    def copy(self) -> OperatorCall:
        """Return the same call with arrays of its own, strided as these are."""
        arrays: dict[str, Any] = {
            name: None if array is None else _copied(array) for name, array in self.inputs.named()
        }
        return OperatorCall(PagedAttentionInputs(**arrays), self.signature)

    def element_type(self, name: str) -> ElementType:
        """Return the element type of an input that is present."""
        element_type: ElementType = getattr(self.signature.inputs, name).element_type
        return element_type


Operator: TypeAlias = Callable[[OperatorCall], PagedAttentionOutputs[Array]]
"""An implementation: runs a call, or refuses it by raising before it has changed anything."""

FEATURES: tuple[str, ...] = (
    "packed_qkv",
    "latent",
    "local_window_size",
    "softcap",
    "head_sink",
    "qk_norm",
    "rotary",
    "rotary_offset",
    "quantized_cache",
    "slot_mapping",
    "attention_metadata",
    "query_positions",
    "attention_bias",
    "output_qk",
    "strided_rows",
)
"""What an implementation may declare that it lacks."""


def features_of(signature: CallSignature) -> Iterator[str]:
    """Yield the features that a call uses, in the order of FEATURES."""
    attributes, inputs = signature.attributes, signature.inputs
    is_latent = attributes.kv_cache_layout == KvCacheLayout.LATENT.value
    quantized = {attributes.k_quant_type, attributes.v_quant_type} != {"NONE"}
    quantized |= not (inputs.k_scale is None and inputs.v_scale is None)
    used = {
        "packed_qkv": inputs.key is None and inputs.value is None and not is_latent,
        "latent": is_latent,
        "local_window_size": attributes.local_window_size != -1,
        "softcap": attributes.softcap != 0.0,
        "head_sink": inputs.head_sink is not None,
        "qk_norm": not (inputs.q_norm_weight is None and inputs.k_norm_weight is None),
        "rotary": bool(attributes.do_rotary),
        "rotary_offset": attributes.rotary_offset != 0,
        "quantized_cache": quantized,
        "slot_mapping": inputs.slot_mapping is not None,
        "attention_metadata": inputs.attention_metadata is not None,
        "query_positions": inputs.query_positions is not None,
        "attention_bias": inputs.attention_bias is not None,
        "output_qk": attributes.qk_output != 0 or signature.output_qk_type is not None,
        "strided_rows": any(each and each.row_stride for _, each in inputs.named()),
    }
    return (name for name in FEATURES if used[name])


def signature_of(
    inputs: PagedAttentionInputs[Array],
    element_types: Mapping[str, ElementType],
    attributes: PagedAttentionAttributes,
    output_qk_type: ElementType | None = None,
) -> CallSignature:
    """Describe arrays; element_types: by name of an input, int32 where none is given."""
    described = {
        name: None if array is None else _described(array, element_types.get(name))
        for name, array in inputs.named()
    }
    metadata = inputs.attention_metadata
    return CallSignature(
        attributes,
        PagedAttentionInputs(**described),  # type: ignore[arg-type]
        None if metadata is None else tuple(metadata.tolist()),
        output_qk_type,
    )


def _copied(array: Array) -> Array:
    if array.flags.c_contiguous or not array.size:
        return array.copy()
    axes = zip(array.shape, array.strides, strict=True)
    reach = sum((extent - 1) * stride for extent, stride in axes) // array.itemsize + 1
    copied = as_strided(np.zeros(reach, array.dtype), array.shape, array.strides)
    copied[...] = array
    return copied


def _described(array: Array, element_type: ElementType | None) -> TensorSignature:
    """Tell strides as a signature does: rows of rank 2 may be apart, all else is contiguous."""
    row_stride, inner = 0, array.flags.c_contiguous
    if array.ndim == 2 and array.size:
        inner = array.shape[1] == 1 or array.strides[1] == array.itemsize
        apart = array.strides[0] // array.itemsize
        row_stride = apart if array.shape[0] > 1 and apart != array.shape[1] else 0
    return TensorSignature(
        element_type or ElementType.INT32, array.shape, "cpu", row_stride if inner else 0, inner
    )
