"""Refusals of the state operators that shapes, element types and strides can tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from pa_spec import InputUnusable
from torch import Tensor

from pa_kernels.state.inputs import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StatePool,
)

ACTIVATIONS = ("none", "silu", "swish")
ELEMENT_TYPES = (torch.float32, torch.bfloat16, torch.float16)

_DELTA_REQUIRED = ("query", "key", "value", "cumulative_sequence_length", "decay", "beta")
_LARGEST = torch.finfo(torch.float32).max


def check_causal_conv(inputs: CausalConvInputs, activation: str) -> None:
    """Raise InputUnusable, naming the tensor, unless the call is one of a causal convolution."""
    x, weight = inputs.input, inputs.weight
    check_activation(activation)
    _check_given(inputs, ("input", "weight", "cumulative_sequence_length"))
    _check_activations("input", x, 2)
    channels = x.shape[1]
    if weight.dim() not in (2, 3) or (weight.dim() == 3 and weight.shape[1] != 1):
        raise _wrong_shape("weight", weight, "[C, 1, K] or [C, K]")
    taps = weight.shape[-1]
    _check_shape("weight", weight, (channels, *weight.shape[1:-1], taps))
    if taps == 0 or channels == 0:
        raise _wrong_shape("weight", weight, "at least one channel and one tap")
    for name, tensor in (("weight", weight), ("bias", inputs.bias)):
        _check_dense(name, tensor, (x.dtype,), x.device)
    if inputs.bias is not None:
        _check_shape("bias", inputs.bias, (channels,))
    boundaries = inputs.cumulative_sequence_length
    rows = _check_boundaries(boundaries, x.device)
    _check_state(inputs.initial_state, inputs.pool, (rows, channels, taps - 1), x)


def check_activation(activation: str) -> None:
    """Raise InputUnusable for a name that is no activation of the convolution."""
    if activation not in ACTIVATIONS:
        raise InputUnusable("activation", f"{activation!r}", ", ".join(ACTIVATIONS))


def check_gated_delta_net(inputs: GatedDeltaNetInputs, attributes: GatedDeltaNetAttributes) -> None:
    """Raise InputUnusable, naming the tensor, unless the call is one of the gated delta rule."""
    query, key, value = inputs.query, inputs.key, inputs.value
    _check_given(inputs, _DELTA_REQUIRED)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _check_activations(name, tensor, 3)
        if tensor.dtype != query.dtype or tensor.device != query.device:
            found = f"{tensor.dtype} on {tensor.device}"
            raise InputUnusable(name, found, f"{query.dtype} on {query.device}, as query is")
    tokens, key_heads, _ = query.shape
    heads = value.shape[1]
    _check_shape("key", key, tuple(query.shape))
    if value.shape[0] != tokens:
        raise _wrong_shape("value", value, f"[T={tokens}, Hv, Dv]")
    for name, tensor in (("query", query), ("value", value)):
        if 0 in tensor.shape[1:]:
            raise _wrong_shape(name, tensor, "at least one head of at least one number")
    if heads % key_heads:
        allowed = f"Hv={heads} a multiple of key's Hk={key_heads}"
        raise _wrong_shape("value", value, allowed)
    for name, tensor in _gates(inputs):
        _check_dense(name, tensor, (torch.float32, query.dtype), query.device, dense_rows=False)
        extents = (tokens, heads) if name in ("decay", "beta") else (heads,)
        _check_shape(name, tensor, extents)
    if (inputs.a_log is None) != (inputs.dt_bias is None):
        missing = "a_log" if inputs.a_log is None else "dt_bias"
        raise InputUnusable(missing, "missing", "a_log and dt_bias together, or neither")
    check_numbers(attributes)
    rows = _check_boundaries(inputs.cumulative_sequence_length, query.device)
    shape = (rows, heads, value.shape[2], query.shape[2])
    _check_state(inputs.initial_state, inputs.pool, shape, query)


def _gates(inputs: GatedDeltaNetInputs) -> Iterator[tuple[str, Tensor]]:
    for name in ("decay", "beta", "a_log", "dt_bias"):
        tensor: Tensor | None = getattr(inputs, name)
        if tensor is not None:
            yield name, tensor


def check_numbers(attributes: GatedDeltaNetAttributes) -> None:
    """Raise InputUnusable for attributes that are no numbers of float32, or a negative epsilon."""
    for name, least in (("scale", -_LARGEST), ("l2norm_epsilon", 0.0)):
        number: object = getattr(attributes, name)
        if not isinstance(number, int | float) or not least <= number <= _LARGEST:
            allowed = "a finite number of float32"
            allowed += " of at least 0" if least == 0 else ""
            raise InputUnusable(name, f"{number!r}", allowed)


def _check_given(
    inputs: CausalConvInputs | GatedDeltaNetInputs | StatePool, required: Sequence[str]
) -> None:
    for name in required:
        given: object = getattr(inputs, name)
        if not isinstance(given, Tensor):
            found = "missing" if given is None else f"a {type(given).__name__}"
            raise InputUnusable(name, found, "a tensor")


def _check_activations(name: str, tensor: Tensor, rank: int) -> None:
    if tensor.dtype not in ELEMENT_TYPES:
        raise InputUnusable(name, f"{tensor.dtype}", "float32, bfloat16 or float16")
    if tensor.dim() != rank:
        raise _wrong_shape(name, tensor, "[T, C]" if rank == 2 else "[T, H, D]")
    width = math.prod(tensor.shape[1:])
    if tensor.numel() == 0:
        return
    is_dense_inside = tensor[0].is_contiguous()
    if not is_dense_inside or (tensor.shape[0] > 1 and tensor.stride(0) < width):
        raise InputUnusable(name, f"strides {tensor.stride()}", "tokens that are contiguous")


def _check_dense(
    name: str,
    tensor: Tensor | None,
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
    *,
    dense_rows: bool = True,
) -> None:
    if tensor is None:
        return
    if tensor.dtype not in dtypes or tensor.device != device:
        allowed = " or ".join(f"{dtype}" for dtype in dict.fromkeys(dtypes))
        raise InputUnusable(name, f"{tensor.dtype} on {tensor.device}", f"{allowed} on {device}")
    if dense_rows and not tensor.is_contiguous():
        raise InputUnusable(name, f"strides {tensor.stride()}", "contiguous")


def _check_boundaries(boundaries: Tensor, device: torch.device) -> int:
    name = "cumulative_sequence_length"
    _check_dense(name, boundaries, (torch.int32,), device)
    if boundaries.dim() != 1 or boundaries.shape[0] == 0:
        raise _wrong_shape(name, boundaries, "[B+1]")
    return boundaries.shape[0] - 1


def _check_state(
    initial_state: Tensor | None, pool: StatePool | None, shape: tuple[int, ...], x: Tensor
) -> None:
    """shape: [B, *row]. The state of a convolution (rank 3) has the input's element type."""
    dtype = x.dtype if len(shape) == 3 else torch.float32
    if initial_state is not None:
        if pool is not None:
            raise InputUnusable("initial_state", "given beside a pool", "one of the two")
        _check_dense("initial_state", initial_state, (dtype,), x.device)
        _check_shape("initial_state", initial_state, shape)
    if pool is None:
        return
    rows, row = shape[0], shape[1:]
    _check_given(pool, ("states", "read_rows", "write_rows"))
    _check_writable(pool.states)
    _check_dense("pool", pool.states, (dtype,), x.device)
    leading = pool.states.dim() - len(row)
    if leading not in (1, 2) or tuple(pool.states.shape[leading:]) != row:
        raise _wrong_shape(
            "pool", pool.states, f"[2, slots, *{list(row)}] or [slots, *{list(row)}]"
        )
    for name, numbers in (("read_rows", pool.read_rows), ("write_rows", pool.write_rows)):
        _check_dense(name, numbers, (torch.int32,), x.device)
        _check_shape(name, numbers, (rows,))


def _check_writable(states: Tensor) -> None:
    if states.requires_grad:
        allowed = "a pool without gradients: it is overwritten, and there is no backward"
        raise InputUnusable("pool", "requires grad", allowed)
    if states.is_neg():
        raise InputUnusable("pool", "a negated view", "the memory itself, which is written")


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise _wrong_shape(name, tensor, f"{list(shape)}")


def _wrong_shape(name: str, tensor: Tensor, allowed: str) -> InputUnusable:
    return InputUnusable(name, f"shape {list(tensor.shape)}", allowed)
