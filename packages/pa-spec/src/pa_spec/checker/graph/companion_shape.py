"""Output shapes of the companion operators, inside the onnx library's inference."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pa_spec.checker.graph.companion import Companion
from pa_spec.checker.graph.element import MAX_ELEMENTS, tensor_of_type
from pa_spec.inference.shape import Extent, SymbolicShape


class InferenceEdge:
    """A node's inputs and outputs as the onnx library's inference shows them."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value: int, float or bytes; a reference has none."""
        from onnx.helper import get_attribute_value

        found = self._context.get_attribute(name)
        if found is None or found.ref_attr_name:
            return default
        try:
            return get_attribute_value(found)
        except ValueError:
            # A kind of value that this release of the library does not read.
            return default

    def input(self, index: int) -> Any:
        """Return an input's TypeProto, None when it is absent or unknown."""
        if index >= self._context.get_num_inputs() or not self._context.has_input(index):
            return None
        return self._context.get_input_type(index)

    def shape(self, index: int) -> SymbolicShape:
        """Return an input's shape, None when unknown."""
        proto = self.input(index)
        return None if proto is None else tensor_of_type(proto).shape

    def element(self, index: int) -> int:
        """Return the number of an input's element type, 0 when unknown."""
        proto = self.input(index)
        is_tensor = proto is not None and proto.WhichOneof("value") == "tensor_type"
        return int(proto.tensor_type.elem_type) if is_tensor else 0

    def copy(self, index: int, source: int) -> None:
        """Say that an output is like an input, as far as that is known."""
        proto = self.input(source)
        if proto is not None and self.is_wanted(index):
            self._context.set_output_type(index, proto)

    def set(self, index: int, element: int, shape: SymbolicShape) -> None:
        """Say what an output is; nothing when its element type is unknown."""
        if element and self.is_wanted(index):
            self._context.set_output_type(index, type_proto(element, shape))

    def set_shape(self, index: int, shape: SymbolicShape) -> None:
        """Say an output's shape and leave its element type to its declaration."""
        if self.is_wanted(index):
            self._context.set_output_type(index, type_proto(0, shape))

    def is_wanted(self, index: int) -> bool:
        """Whether the node has that output."""
        context = self._context
        return index < context.get_num_outputs() and bool(context.has_output(index))


@lru_cache(maxsize=16384)
def type_proto(element: int, shape: SymbolicShape) -> Any:
    """Return a TypeProto of a tensor; an element type of 0 is not written."""
    from onnx import TypeProto

    proto = TypeProto()
    if element:
        proto.tensor_type.elem_type = element
    if shape is not None:
        proto.tensor_type.shape.SetInParent()
        for extent in shape:
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                # A length that no tensor has stays unknown.
                if extent <= MAX_ELEMENTS:
                    dim.dim_value = extent
            elif extent is not None:
                dim.dim_param = extent
    return proto


def companion_inference(companion: Companion) -> Callable[[Any], None]:
    """Return the inference function of an operator; it never raises, unknown stays unknown."""
    copied = {word.partition("=")[0] for word in companion.shapes}
    typed_only = [i for i in range(len(companion.outputs)) if str(i) not in copied]

    def infer(context: Any) -> None:
        edge = InferenceEdge(context)
        for index in typed_only:
            if edge.is_wanted(index):
                edge.set(index, _element_type(companion, edge, index), None)
        for word in companion.shapes:
            output, is_copy, source = word.partition("=")
            origin, _, typed = source.partition(":")
            if not is_copy:
                _SPECIAL[word](edge)
            elif typed:
                edge.set(int(output), edge.element(int(typed)), edge.shape(int(origin)))
            else:
                edge.copy(int(output), int(origin))

    return infer


def _element_type(companion: Companion, edge: InferenceEdge, index: int) -> int:
    """Return the element type of the first input that shares an output's name of types."""
    types = companion.outputs[index].types
    for source, slot in enumerate(companion.inputs):
        if slot.types == types and edge.element(source):
            return edge.element(source)
    return 0


def _columns(edge: InferenceEdge) -> None:
    """[..., K] times a quantized [N, K] gives [..., N]."""
    shape, width = edge.shape(0), edge.attribute("N")
    if shape and isinstance(width, int) and width > 0:
        edge.set(0, edge.element(0), (*shape[:-1], width))


def _rows(edge: InferenceEdge) -> None:
    """Rows of a quantized matrix, whose bytes may hold several columns each."""
    data, indices, bits = edge.shape(0), edge.shape(1), edge.attribute("bits", 4)
    axis = edge.attribute("gather_axis", 0)
    if data is None or indices is None or len(data) != 2 or axis != 0:
        return
    width: Extent = data[1]
    if edge.element(0) == _UINT8 and bits in (2, 4):
        width = width * (8 // bits) if isinstance(width, int) else None
    edge.set(0, edge.element(2), (*indices, width))


def _heads(edge: InferenceEdge) -> None:
    """Attention with key and value apart yields query's shape."""
    if edge.input(1) is not None and edge.input(2) is not None:
        edge.set(0, edge.element(0), edge.shape(0))


def _tokens(edge: InferenceEdge) -> None:
    """[T, heads, Dv] for packed [T, heads, D] of query and value; the state keeps its shape."""
    query, value = edge.shape(0), edge.shape(2)
    edge.set(1, edge.element(6), edge.shape(6))
    if query is None or value is None or len(query) != 3 or len(value) != 3:
        return
    heads: Extent = None
    if isinstance(query[1], int) and isinstance(value[1], int):
        heads = max(query[1], value[1])
    edge.set(0, edge.element(0), (query[0], heads, value[2]))


_UINT8 = 2
_SPECIAL = {"columns": _columns, "rows": _rows, "heads": _heads, "tokens": _tokens}
