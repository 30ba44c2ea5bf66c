"""From tensors to the signature of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import torch
from pa_spec import (
    CallSignature,
    ElementType,
    InputUnusable,
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

_REQUIRED = tuple(
    index
    for index, field in enumerate(fields(PagedAttentionInputs))
    if field.default is MISSING and "None" not in str(field.type)
)

input_values = attrgetter(*INPUT_NAMES)
"""All inputs of a call as a tuple: of tensors, or of signatures."""


TensorLayout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], torch.device, bool]
"""Element type, shape, strides, device, negative bit: all that a signature takes from a tensor."""


class CallLayout(NamedTuple):
    """Everything that a call's signature is made of, quickly collected, hashed and compared.

    tensors: in the order of the inputs, None where absent. metadata: the values of the bounds.
    """

    tensors: tuple[TensorLayout | None, ...]
    metadata: tuple[int, ...] | None
    attributes: PagedAttentionAttributes
    output_qk_type: ElementType | None


def layout_of(
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    output_qk_type: ElementType | None = None,
) -> CallLayout:
    """Collect what a signature is made of; raises nothing, reads no device value."""
    tensors: tuple[Tensor | None, ...] = input_values(inputs)
    if not all(isinstance(tensors[index], Tensor) for index in _REQUIRED):
        _refuse_missing(tensors)
    metadata = inputs.attention_metadata
    if metadata is not None and metadata.device.type != "cpu":
        metadata = None  # refused by its device (V102): its values are not for the host
    return CallLayout(
        # A list comprehension in a tuple is a third faster than a generator.
        tuple([None if each is None else _tensor_layout(each) for each in tensors]),
        None if metadata is None else tuple(metadata.flatten().tolist()),
        attributes,
        output_qk_type,
    )


def _refuse_missing(tensors: tuple[object, ...]) -> None:
    for index in _REQUIRED:
        if not isinstance(tensors[index], Tensor):
            found = "nothing" if tensors[index] is None else type(tensors[index]).__name__
            raise InputUnusable(INPUT_NAMES[index], found, "a tensor")


def signature_of(
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    output_qk_type: ElementType | None = None,
) -> CallSignature:
    """Build the signature of a call from its tensors, without reading a device value.

    output_qk_type: element type of output 3, float32 when qk_output asks for one and None is given.

    Raises ContractViolation for an element type outside the contract or a tensor with the negative
    bit (V98), and for inputs that are spread over devices (V102).
    """
    return signature_of_layout(layout_of(inputs, attributes, output_qk_type))


def signature_of_layout(layout: CallLayout) -> CallSignature:
    """Build the signature of every call that has a layout; raises as `signature_of` does."""
    signatures = [
        None if tensor is None else _signature(name, tensor)
        for name, tensor in zip(INPUT_NAMES, layout.tensors, strict=True)
    ]
    _check_devices(layout.tensors)
    output_qk_type = layout.output_qk_type
    if output_qk_type is None and layout.attributes.qk_output:
        output_qk_type = ElementType.FLOAT32
    return CallSignature(
        attributes=layout.attributes,
        inputs=PagedAttentionInputs(*signatures),  # type: ignore[arg-type]
        metadata=layout.metadata,
        output_qk_type=output_qk_type,
    )


def tensor_signature(name: str, tensor: Tensor) -> TensorSignature:
    """Describe one tensor; rank 2 may have strided rows, every other rank must be contiguous."""
    return _signature(name, _tensor_layout(tensor))


def _tensor_layout(tensor: Tensor) -> TensorLayout:
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.device, tensor.is_neg())


def _signature(name: str, layout: TensorLayout) -> TensorSignature:
    dtype, size, strides, device, is_neg = layout
    element_type = _ELEMENT_TYPES.get(dtype)
    if element_type is None:
        allowed = "an element type of the contract"
        raise rules()["V98"].violation(name, str(dtype), allowed=allowed)
    if is_neg:
        # Memory holds the opposite of the values; backends read and write memory.
        allowed = "values as they stand in memory (resolve_neg)"
        raise rules()["V98"].violation(name, f"{dtype} with the negative bit", allowed=allowed)
    shape = tuple(size)
    if len(shape) != 2:
        is_dense = _is_contiguous(shape, strides)
        return TensorSignature(element_type, shape, device.type, contiguous_inner=is_dense)
    rows, columns = shape
    stride = strides[0] if rows > 1 else columns
    row_stride = stride if stride != columns else 0
    # Rows that overlap (an expanded tensor has stride 0) count as not contiguous either.
    # Strides of a tensor without elements mean nothing; numpy writes 0.
    is_empty = rows == 0 or columns == 0
    inner = is_empty or ((columns <= 1 or strides[1] == 1) and stride >= columns)
    return TensorSignature(element_type, shape, device.type, row_stride, inner)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Say the same as `Tensor.is_contiguous`: strides of extents up to 1 mean nothing."""
    if 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def _check_devices(tensors: tuple[TensorLayout | None, ...]) -> None:
    device = None
    for name, tensor in zip(INPUT_NAMES, tensors, strict=True):
        if tensor is None:
            continue
        # The query comes first; the others stand where it does.
        device = device or tensor[3]
        if tensor[3] != device and (name != "attention_metadata" or tensor[3].type != "cpu"):
            expected = "cpu" if name == "attention_metadata" else str(device)
            raise rules()["V102"].violation(name, str(tensor[3]), device=expected)
