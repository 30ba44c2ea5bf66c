"""This package's operator as `pa_spec.conformance` drives one: on numpy arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from pa_spec import ElementType, PagedAttentionInputs, PagedAttentionOutputs
from pa_spec.conformance import Array, Operator, OperatorCall
from torch import Tensor

from pa_kernels.prepare import prepare
from pa_kernels.signature import DTYPES, signature_of


def conformance_operator(backend: str) -> Operator:
    """Return a backend as an operator on arrays; its tensors share the arrays' memory."""

    def operator(call: OperatorCall) -> PagedAttentionOutputs[Array]:
        tensors: dict[str, Any] = {
            name: None if array is None else _tensor(array, call.element_type(name))
            for name, array in call.inputs.named()
        }
        inputs: PagedAttentionInputs[Tensor] = PagedAttentionInputs(**tensors)
        # As the call says: with a score output that was not asked for, or without one that was.
        signature = replace(
            signature_of(inputs, call.attributes), output_qk_type=call.signature.output_qk_type
        )
        outputs = prepare(signature, backend).run(inputs)
        scores = outputs.output_qk
        return PagedAttentionOutputs(
            _array(outputs.output), None if scores is None else _array(scores)
        )

    return operator


def _tensor(array: Array, element_type: ElementType) -> Tensor:
    tensor = torch.from_numpy(array)
    dtype = DTYPES[element_type]
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def _array(tensor: Tensor) -> Array:
    bits = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    array: Array = bits.numpy()
    return array
