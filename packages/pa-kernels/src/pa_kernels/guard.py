"""A cheap proof that a layer's tensors keep the prepared signature."""

from __future__ import annotations

from typing import final

import torch
from pa_spec import CallSignature, PagedAttentionInputs, TensorSignature, rules
from torch import Tensor

from pa_kernels.signature import DTYPES, INPUT_NAMES, input_values, tensor_signature


@final
class InputGuard:
    """Compares tensors with a signature; backends address memory by it, so nothing may differ."""

    __slots__ = ("_expected", "_signature")

    def __init__(self, signature: CallSignature) -> None:
        self._signature = signature
        self._expected = tuple(
            None if each is None else (DTYPES[each.element_type], each.shape, _strides(each))
            for each in input_values(signature.inputs)
        )

    def check(self, inputs: PagedAttentionInputs[Tensor]) -> None:
        """Raise ContractViolation naming the first tensor that differs.

        By V71, or by what a signature never has: V98 (the negative bit), V102 (another device).
        """
        device: torch.device = inputs.query.device
        is_host = inputs.query.is_cpu
        for index, (tensor, expected) in enumerate(
            zip(input_values(inputs), self._expected, strict=True)
        ):
            if tensor is None and expected is None:
                continue
            if (
                tensor is None
                or expected is None
                # An element type exists once, host memory too: neither needs a slow comparison.
                or tensor.dtype is not expected[0]
                or tensor.shape != expected[1]
                or tensor.stride() != expected[2]
                or tensor.is_neg()
                or not ((is_host and tensor.is_cpu) or tensor.device == device)
            ):
                self._check_closely(index, tensor, device)

    def _check_closely(self, index: int, tensor: Tensor | None, device: torch.device) -> None:
        # Strides of axes with at most one entry mean nothing; only the signature can tell.
        name = INPUT_NAMES[index]
        expected: TensorSignature | None = getattr(self._signature.inputs, name)
        actual = None if tensor is None else tensor_signature(name, tensor)
        if actual != expected:
            signature = _text(expected)
            raise rules()["V71"].violation(name, _text(actual), "prepared", signature=signature)
        if tensor is not None and name != "attention_metadata" and tensor.device != device:
            raise rules()["V102"].violation(name, f"{tensor.device}", device=device)


def _text(signature: TensorSignature | None) -> str:
    if signature is None:
        return "nothing"
    text = f"{signature.element_type.value} {list(signature.shape)} on {signature.device}"
    if signature.row_stride:
        text += f" with rows {signature.row_stride} elements apart"
    return text if signature.contiguous_inner else f"{text}, not contiguous"


def _strides(signature: TensorSignature) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(signature.shape[1:]):
        strides.insert(0, strides[0] * max(extent, 1))
    if signature.row_stride and len(signature.shape) == 2:
        strides[0] = signature.row_stride
    return tuple(strides[: len(signature.shape)])
