"""Output shapes of PagedAttention, inside the onnx library's inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pa_spec.checker.graph.attribute import NEUTRAL_ATTRIBUTES
from pa_spec.checker.graph.companion_shape import InferenceEdge
from pa_spec.checker.graph.element import numbers, tensor_of_type
from pa_spec.errors import ContractViolation
from pa_spec.inference import SymbolicCall, SymbolicTensor, infer_outputs
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

_UNKNOWN = SymbolicTensor(None, None)
_REQUIRED = (
    "query",
    "key_cache",
    "cumulative_sequence_length",
    "past_seqlens",
    "block_table",
)
_OPTIONAL = ("key", "value", "value_cache")


def attention_inference(*, raises: bool) -> Callable[[Any], None]:
    """Return the inference function of PagedAttention.

    raises: a call that breaks a rule of inference, or has an attribute of another type, raises
    the library's InferenceError; otherwise its outputs stay unknown.
    """

    def infer(context: Any) -> None:
        from onnx.shape_inference import InferenceError

        try:
            edge = InferenceEdge(context)
            if raises:
                _check_neutral(edge)
            _infer(context, edge)
        except (ContractViolation, TypeError, ValueError) as error:
            if raises:
                raise InferenceError(str(error)) from error

    return infer


# What shapes follow from; to ask the library for more costs more than the inference itself.
_ATTRIBUTES = {"num_heads": int, "kv_num_heads": int, "v_head_size": int, "kv_cache_layout": str}
_SHAPED = {0: "query", 1: "key", 2: "value", 3: "key_cache", 4: "value_cache"}
_SHAPED_WITH_SCORES = {**_SHAPED, 7: "block_table", 16: "attention_metadata"}


def _infer(context: Any, edge: InferenceEdge) -> None:
    names = [bool(context.has_output(index)) for index in range(context.get_num_outputs())]
    has_scores = len(names) > 3 and names[3]
    shaped = _SHAPED_WITH_SCORES if has_scores else _SHAPED
    metadata = _metadata(context) if has_scores else None
    call = SymbolicCall(_attributes(edge), _inputs(edge, shaped), metadata)
    for index, tensor in enumerate(infer_outputs(call, names)):
        if tensor is None:
            continue
        if index == 3:
            # No input determines the type of the scores: the file declares it.
            edge.set_shape(index, tensor.shape)
        elif tensor.element_type is not None:
            edge.set(index, numbers()[tensor.element_type.value], tensor.shape)
        else:
            edge.set(index, numbers().get(tensor.other_type, 0), tensor.shape)


def _attributes(edge: InferenceEdge) -> PagedAttentionAttributes:
    values: dict[str, Any] = {"num_heads": 0, "kv_num_heads": 0}
    for name, kind in _ATTRIBUTES.items():
        found = edge.attribute(name)
        if found is None:
            continue
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        if not isinstance(found, kind):
            raise TypeError(f"{name}: expected an attribute of type {kind.__name__}")
        values[name] = found
    return PagedAttentionAttributes(**values)


def _check_neutral(edge: InferenceEdge) -> None:
    """Refuse what a later revision's attributes would change."""
    for name, neutral in NEUTRAL_ATTRIBUTES.items():
        found = edge.attribute(name, neutral)
        found = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
        if found != neutral:
            raise ValueError(f"{name}: expected {neutral} in this revision, got {found}")


def _inputs(edge: InferenceEdge, shaped: Mapping[int, str]) -> PagedAttentionInputs[SymbolicTensor]:
    found: dict[str, SymbolicTensor | None] = dict.fromkeys(_OPTIONAL) | dict.fromkeys(
        _REQUIRED, _UNKNOWN
    )
    for index, name in shaped.items():
        proto = edge.input(index)
        if proto is not None:
            found[name] = tensor_of_type(proto)
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
