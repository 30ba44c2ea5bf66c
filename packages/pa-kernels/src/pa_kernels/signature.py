"""From tensors to the signature of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType

import torch
from pa_spec import (
    CallSignature,
    ElementType,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    TensorSignature,
    rules,
)
from torch import Tensor

DTYPES: Mapping[ElementType, torch.dtype] = MappingProxyType(
    {
        ElementType.FLOAT32: torch.float32,
        ElementType.FLOAT16: torch.float16,
        ElementType.BFLOAT16: torch.bfloat16,
        ElementType.FLOAT8E4M3FN: torch.float8_e4m3fn,
        ElementType.INT8: torch.int8,
        ElementType.UINT8: torch.uint8,
        ElementType.INT32: torch.int32,
        ElementType.INT64: torch.int64,
        ElementType.FLOAT64: torch.float64,
        ElementType.BOOL: torch.bool,
    }
)
"""The tensor library's name of every element type."""

_ELEMENT_TYPES = {dtype: element_type for element_type, dtype in DTYPES.items()}


INPUT_NAMES = tuple(field.name for field in fields(PagedAttentionInputs))
"""Inputs of the operator, in order."""

input_values = attrgetter(*INPUT_NAMES)
"""All inputs of a call as a tuple: of tensors, or of signatures."""


def signature_of(
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    output_qk_type: ElementType | None = None,
) -> CallSignature:
    """Build the signature of a call from its tensors, without reading a device value.

    output_qk_type: element type of output 3, float32 when qk_output asks for one and None is given.

    Raises ContractViolation for an element type outside the contract (V98) and for inputs that
    are spread over devices (V102).
    """
    tensors: tuple[Tensor | None, ...] = input_values(inputs)
    signatures = [
        None if tensor is None else tensor_signature(name, tensor)
        for name, tensor in zip(INPUT_NAMES, tensors, strict=True)
    ]
    _check_devices(tensors, inputs.query.device)
    metadata = inputs.attention_metadata
    if output_qk_type is None and attributes.qk_output:
        output_qk_type = ElementType.FLOAT32
    return CallSignature(
        attributes=attributes,
        inputs=PagedAttentionInputs(*signatures),  # type: ignore[arg-type]
        metadata=None if metadata is None else tuple(metadata.flatten().tolist()),
        output_qk_type=output_qk_type,
    )


def tensor_signature(name: str, tensor: Tensor) -> TensorSignature:
    """Describe one tensor; rank 2 may have strided rows, every other rank must be contiguous."""
    element_type = _ELEMENT_TYPES.get(tensor.dtype)
    if element_type is None:
        allowed = "an element type of the contract"
        raise rules()["V98"].violation(name, str(tensor.dtype), allowed=allowed)
    shape = tuple(tensor.shape)
    if len(shape) != 2:
        return TensorSignature(
            element_type, shape, tensor.device.type, contiguous_inner=tensor.is_contiguous()
        )
    rows, columns = shape
    stride = tensor.stride(0) if rows > 1 else columns
    row_stride = stride if stride != columns else 0
    # Rows that overlap (an expanded tensor has stride 0) count as not contiguous either.
    # Strides of a tensor without elements mean nothing; numpy writes 0.
    is_empty = rows == 0 or columns == 0
    inner = is_empty or ((columns <= 1 or tensor.stride(1) == 1) and stride >= columns)
    return TensorSignature(element_type, shape, tensor.device.type, row_stride, inner)


def _check_devices(tensors: tuple[Tensor | None, ...], device: torch.device) -> None:
    for name, tensor in zip(INPUT_NAMES, tensors, strict=True):
        if tensor is None or tensor.device == device:
            continue
        if name != "attention_metadata" or tensor.device.type != "cpu":
            expected = "cpu" if name == "attention_metadata" else str(device)
            raise rules()["V102"].violation(name, str(tensor.device), device=expected)
