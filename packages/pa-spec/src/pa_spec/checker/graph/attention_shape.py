"""Output shapes of PagedAttention, inside the onnx library's inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pa_spec.checker.graph.companion_shape import InferenceEdge
from pa_spec.checker.graph.element import spellings, tensor_of_type
from pa_spec.contract.operator_table import operator_attributes, operator_inputs
from pa_spec.errors import ContractViolation
from pa_spec.inference import SymbolicCall, SymbolicTensor, infer_outputs
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

_UNKNOWN = SymbolicTensor(None, None)


def attention_inference(*, raises: bool) -> Callable[[Any], None]:
    """Return the inference function of PagedAttention.

    raises: a call that breaks a rule of inference raises the library's InferenceError; otherwise
    its outputs stay unknown.
    """

    def infer(context: Any) -> None:
        from onnx.shape_inference import InferenceError

        try:
            _infer(context, InferenceEdge(context))
        except ContractViolation as violation:
            if raises:
                raise InferenceError(str(violation)) from violation

    return infer


def _infer(context: Any, edge: InferenceEdge) -> None:
    names = [bool(context.has_output(index)) for index in range(context.get_num_outputs())]
    call = SymbolicCall(_attributes(edge), _inputs(edge), _metadata(context))
    numbers = {name: number for number, name in spellings().items()}
    for index, tensor in enumerate(infer_outputs(call, names)):
        if tensor is None:
            continue
        if tensor.element_type is not None:
            element = numbers[tensor.element_type.value]
        elif index == 3:
            element = _declared_element(context)
        else:
            element = numbers.get(tensor.other_type, 0)
        edge.set(index, element, tensor.shape)


def _declared_element(context: Any) -> int:
    """Return the element type that output_qk is declared with: no input determines it."""
    declared = context.get_output_type(3)
    return 0 if declared is None else int(declared.tensor_type.elem_type)


def _attributes(edge: InferenceEdge) -> PagedAttentionAttributes:
    values: dict[str, Any] = {"num_heads": 0, "kv_num_heads": 0}
    for each in operator_attributes():
        found = edge.attribute(each.name)
        if found is not None:
            values[each.name] = found.decode("utf-8", "replace") if each.type == "string" else found
    return PagedAttentionAttributes(**values)


def _inputs(edge: InferenceEdge) -> PagedAttentionInputs[SymbolicTensor]:
    found: dict[str, SymbolicTensor | None] = {}
    for each in operator_inputs():
        proto = edge.input(each.index)
        found[each.name] = None if proto is None else tensor_of_type(proto)
        if proto is None and each.presence == "required":
            found[each.name] = _UNKNOWN
    return PagedAttentionInputs(**found)  # type: ignore[arg-type]


def _metadata(context: Any) -> tuple[int, ...] | None:
    """Return the bounds where they are a constant of the graph."""
    from onnx.numpy_helper import to_array

    if context.get_num_inputs() <= 16 or not context.has_input(16):
        return None
    data = context.get_input_data(16)
    if data is None or len(data.dims) != 1 or data.dims[0] > 3:
        return None
    return tuple(int(each) for each in to_array(data))
