"""The compiled CPU backend: prologue and attention of a call in one C++ function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import final

import torch
from pa_spec import (
    CallSignature,
    ElementType,
    InputUnusable,
    PagedAttentionAttributes,
    PagedAttentionError,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    QuantType,
    TensorSignature,
)
from torch import Tensor

from pa_kernels import _cpu
from pa_kernels.geometry import CallGeometry
from pa_kernels.values import check_host_values

_ACTIVATIONS = {
    ElementType.FLOAT32: _cpu.Dtype.FLOAT32,
    ElementType.BFLOAT16: _cpu.Dtype.BFLOAT16,
    ElementType.FLOAT16: _cpu.Dtype.FLOAT16,
}
_QUANTIZED = {
    ElementType.INT8: _cpu.Dtype.INT8,
    ElementType.FLOAT8E4M3FN: _cpu.Dtype.FLOAT8E4M3FN,
}
_SCALINGS = {
    QuantType.NONE.value: _cpu.Scaling.NONE,
    QuantType.PER_TENSOR.value: _cpu.Scaling.PER_TENSOR,
    QuantType.PER_CHANNEL.value: _cpu.Scaling.PER_CHANNEL,
}


@final
class CpuBackend:
    """Paged attention in C++ for tensors in host memory."""

    name = "cpu"

    def __init__(self, unit: str = "") -> None:
        self._unit = unit

    def unsupported(self, signature: CallSignature) -> str | None:
        """Return why it cannot serve a checked signature (feature and limit), None if it can."""
        return next(_limits(signature), None)

    def prepare(self, signature: CallSignature) -> CpuPlan:
        """Size the work for a signature that it supports."""
        return CpuPlan(signature, self._unit)


@final
class CpuPlan:
    """One prepared call: constants are in C++, `run` passes addresses."""

    __slots__ = ("_attributes", "_call", "_has_strided_scale", "_key_offset", "_value_offset")

    def __init__(self, signature: CallSignature, unit: str) -> None:
        shape = _shape_of(signature)
        self._attributes = signature.attributes
        scales = (signature.inputs.k_scale, signature.inputs.v_scale)
        self._has_strided_scale = any(each is not None and each.row_stride for each in scales)
        self._call = _cpu.PreparedCall(shape, unit)
        itemsize = signature.inputs.query.element_type.itemsize
        # Packed rows: query heads, key heads, value heads.
        self._key_offset = shape.num_heads * shape.head_size * itemsize
        self._value_offset = self._key_offset + shape.kv_num_heads * shape.head_size * itemsize

    @property
    def unit(self) -> str:
        """Instruction-set unit that serves the call."""
        return self._call.unit

    def run(self, inputs: PagedAttentionInputs[Tensor], out: PagedAttentionOutputs[Tensor]) -> None:
        """Store keys and values into the caches, then fill `out`.

        Raises ContractViolation (V65, V66, V105) before the first store.
        """
        if self._has_strided_scale:
            inputs = _with_whole_scales(inputs)
        query = inputs.query.data_ptr()
        value_cache, value_scale = inputs.value_cache, inputs.v_scale
        if inputs.key is None:
            key, value = query + self._key_offset, query + self._value_offset
        else:
            key, value = inputs.key.data_ptr(), _address(inputs.value)
        if value_cache is None:
            # LATENT: values are the first channels of the keys, scaled as these are.
            value_cache, value_scale = inputs.key_cache, inputs.k_scale
        pointers = (
            query,
            key,
            value,
            inputs.key_cache.data_ptr(),
            value_cache.data_ptr(),
            inputs.cumulative_sequence_length.data_ptr(),
            inputs.past_seqlens.data_ptr(),
            inputs.block_table.data_ptr(),
            _address(inputs.cos_cache),
            _address(inputs.sin_cache),
            _address(inputs.slot_mapping),
            _address(inputs.head_sink),
            _address(inputs.q_norm_weight),
            _address(inputs.k_norm_weight),
            _address(inputs.query_positions),
            _address(inputs.k_scale),
            _address(value_scale),
            out.output.data_ptr(),
        )
        if not all(pointers[index] for index in _NEEDED):
            _check_memory(inputs)
        refused = self._call.run(pointers, torch.get_num_threads())
        if refused is not None:
            check_host_values(inputs, self._attributes)
            raise PagedAttentionError(f"the cpu backend refused a call: status and place {refused}")


def _limits(signature: CallSignature) -> Iterator[str]:
    attributes, inputs = signature.attributes, signature.inputs
    if signature.device != "cpu":
        yield f"device {signature.device}: the cpu backend works in host memory"
    if inputs.attention_bias is not None:
        yield "attention_bias: the cpu backend adds none to its logits"
    if attributes.qk_output:
        yield f"qk_output {attributes.qk_output}: the cpu backend keeps no score matrix"


_LARGEST, _SMALLEST = torch.finfo(torch.float32).max, torch.finfo(torch.float32).tiny

_NEEDED = (0, 1, 3, 4, 5, 6, 7, 17)
"""Addresses that no call with tokens is without, unless the tensor has no elements."""


def _check_memory(inputs: PagedAttentionInputs[Tensor]) -> None:
    for name, tensor in inputs.named():
        if tensor is not None and tensor.numel() > 0 and tensor.data_ptr() == 0:
            raise InputUnusable(name, "a tensor without memory", "a tensor that holds its values")


def _with_whole_scales(inputs: PagedAttentionInputs[Tensor]) -> PagedAttentionInputs[Tensor]:
    k_scale, v_scale = inputs.k_scale, inputs.v_scale
    return replace(
        inputs,
        k_scale=None if k_scale is None else k_scale.contiguous(),
        v_scale=None if v_scale is None else v_scale.contiguous(),
    )


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _row_stride(tensor: TensorSignature) -> int:
    return tensor.row_stride or tensor.shape[1]


def _shape_of(signature: CallSignature) -> _cpu.CallShape:
    attributes, inputs = signature.attributes, signature.inputs
    geometry = CallGeometry.of(signature)
    shape = _cpu.CallShape()
    shape.num_tokens = signature.num_tokens
    shape.batch_size = signature.batch_size
    shape.num_heads = attributes.num_heads
    shape.num_blocks, shape.block_size, shape.kv_num_heads, shape.head_size = inputs.key_cache.shape
    shape.v_head_size = geometry.v_head_size
    shape.table_columns = inputs.block_table.shape[1]
    shape.table_stride = _row_stride(inputs.block_table)
    shape.query_stride = _row_stride(inputs.query)
    shape.key_stride = _row_stride(inputs.key or inputs.query)
    shape.value_stride = _row_stride(inputs.value or inputs.query)
    shape.output_stride = attributes.num_heads * shape.v_head_size
    shape.window_tokens = attributes.local_window_size
    shape.dtype = _ACTIVATIONS[inputs.query.element_type]
    shape.cache_dtype = _QUANTIZED.get(inputs.key_cache.element_type, shape.dtype)
    shape.key_scaling = _SCALINGS[attributes.k_quant_type]
    value_type = attributes.k_quant_type if geometry.is_latent else attributes.v_quant_type
    shape.value_scaling = _SCALINGS[value_type]
    # What is finite or above 0 stays so in the kernels' float32.
    shape.scale = min(max(geometry.scale, -_LARGEST / 2), _LARGEST / 2)
    shape.softcap = min(max(attributes.softcap, _SMALLEST), _LARGEST) if attributes.softcap else 0.0
    shape.norm_epsilon = min(max(attributes.qk_norm_epsilon, _SMALLEST), _LARGEST)
    _set_rotary(shape, attributes, inputs)
    return shape


def _set_rotary(
    shape: _cpu.CallShape,
    attributes: PagedAttentionAttributes,
    inputs: PagedAttentionInputs[TensorSignature],
) -> None:
    cos, sin = inputs.cos_cache, inputs.sin_cache
    if not attributes.do_rotary or cos is None or sin is None:
        return
    shape.rotary_rows = cos.shape[0]
    shape.rotary_dim = 2 * cos.shape[1]
    shape.rotary_offset = attributes.rotary_offset
    shape.rotary_interleaved = attributes.rotary_interleaved
    shape.cos_stride = _row_stride(cos)
    shape.sin_stride = _row_stride(sin)
