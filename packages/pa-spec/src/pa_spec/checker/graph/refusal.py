"""Nodes that their operators refuse: inputs whose types or shapes do not fit each other."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import prod
from typing import Any, NamedTuple

from pa_spec.checker.graph.companion import Companion, companions
from pa_spec.checker.graph.companion_shape import type_proto
from pa_spec.checker.graph.element import MAX_RANK, lengths_of, numbers
from pa_spec.checker.graph.schema import CHECK_DOMAIN
from pa_spec.checker.graph.walk import ATTENTION, STATE_OPERATORS, repeated_attributes
from pa_spec.checker.graph.width import is_judged, width_mistake
from pa_spec.checker.tensor_text import name_text, tensor_text
from pa_spec.inference.shape import SymbolicTensor

MAX_QUESTIONS = 4000
"""Unlike nodes of a graph that are asked about; the layers of a model are mostly alike."""

_MAX_DATA = 64
"""Elements of a constant whose values shapes depend on; nothing real has as many axes."""
_MOST_GIVEN = 3

_JUDGED_WITH_THE_NODE = STATE_OPERATORS | {ATTENTION}


class _Question(NamedTuple):
    """A node, with what is known of its inputs.

    companion: the operator where it is none of ONNX's own. version: of ONNX's operators. data:
    the inputs that are small constants.
    """

    node: Any
    companion: Companion | None
    version: int
    types: tuple[SymbolicTensor | None, ...]
    data: tuple[bytes | None, ...]

    def likeness(self) -> Hashable:
        """Return what the answer depends on."""
        attributes = tuple(each.SerializeToString() for each in self.node.attribute)
        outputs = tuple(map(bool, self.node.output))
        return self.companion, self.node.op_type, attributes, self.types, self.data, outputs


class Refusals:
    """Asks the onnx library about one node at a time; nodes that are alike only once.

    A node is asked about when the element types of all its inputs are known and the operator is
    ONNX's own or a companion. What the library cannot say of it is no refusal.
    """

    def __init__(self, model: Any) -> None:
        versions = {each.domain or "ai.onnx": each.version for each in model.opset_import}
        self._version = versions.get("ai.onnx", 0)
        self._companions = {(each.domain, each.name): each for each in companions()}
        self._functions = {(each.domain, each.name) for each in model.functions}
        self._known: dict[Hashable, str] = {}
        self._data = _small_constants(model.graph)

    def reason(self, node: Any, tensors: Mapping[str, SymbolicTensor]) -> str:
        """Return why a node's operator refuses it, "" when it does not.

        tensors: what is known of the names that the node uses.
        """
        kind = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        companion = self._companions.get(kind)
        is_foreign = kind in self._functions or (
            not is_judged(companion) if companion is not None else bool(kind[0])
        )
        if is_foreign or kind[1] in _JUDGED_WITH_THE_NODE or not node.input or _is_odd(node):
            return ""
        types = tuple(tensors.get(name) if name else None for name in node.input)
        for name, each in zip(node.input, types, strict=True):
            if name and not _is_usable(each):
                return ""
        data = tuple(map(self._data.get, node.input))
        question = _Question(node, companion, self._version, types, data)
        likeness = question.likeness()
        if likeness not in self._known:
            if len(self._known) >= MAX_QUESTIONS:
                return ""
            self._known[likeness] = _answer(question)
        return self._known[likeness]


def _is_odd(node: Any) -> bool:
    """Whether a node has subgraphs, which are not asked about, or attributes given twice."""
    return bool(repeated_attributes(node)) or any(
        each.HasField("g") or each.graphs for each in node.attribute
    )


def _answer(question: _Question) -> str:
    """Return a node's inputs and why they are refused, "" when they are not."""
    reason = _library_reason(question)
    if not reason and question.companion is not None:
        shapes = [None if each is None else each.shape for each in question.types]
        attributes = {each.name: each.i for each in question.node.attribute}
        reason = width_mistake(question.companion, shapes, attributes)
    if not reason:
        return ""
    given = [tensor_text(each) for each in question.types if each is not None][:_MOST_GIVEN]
    return f"{', '.join(given)} ({name_text(reason)})"


def _library_reason(question: _Question) -> str:
    from onnx import NodeProto, OperatorSetIdProto, TensorProto, defs, shape_inference

    node = question.node
    place, version = (CHECK_DOMAIN, 1) if question.companion else ("", question.version)
    asked = NodeProto(op_type=node.op_type, domain=place, attribute=node.attribute)
    asked.output.extend(f"output {i}" if name else "" for i, name in enumerate(node.output))
    types: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for index, (each, value) in enumerate(zip(question.types, question.data, strict=True)):
        name = f"input {index}" if each is not None else ""
        asked.input.append(name)
        if each is not None:
            types[name] = type_proto(_number(each), each.shape)
        if value is not None:
            values[name] = TensorProto.FromString(value)
    try:
        schema = defs.get_schema(node.op_type, version, place)
    except (defs.SchemaError, TypeError):
        # An operator or version that this release of the library does not know.
        return ""
    try:
        opsets = [OperatorSetIdProto(domain=place, version=version)]
        shape_inference.infer_node_outputs(schema, asked, types, values, None, opsets)
    except Exception as error:  # noqa: BLE001 - the library has several, of no common kind
        return _plain(str(error)) or type(error).__name__
    return ""


def _plain(message: str) -> str:
    """Return the library's reason without its own marks."""
    text = message.strip().partition("\n")[0]
    while text.startswith(("[", "(")):
        text = text[1:].partition("]" if text[0] == "[" else ")")[2].strip(" :")
    return text


def _is_usable(tensor: SymbolicTensor | None) -> bool:
    if tensor is None or not _number(tensor):
        return False
    return tensor.shape is None or len(tensor.shape) < MAX_RANK


def _number(tensor: SymbolicTensor) -> int:
    """Return the number of an element type, 0 when it is unknown or no tensor's."""
    known = tensor.element_type.value if tensor.element_type else tensor.other_type
    return numbers().get(known, 0)


def _small_constants(graph: Any) -> dict[str, bytes]:
    """Return the constants on which shapes may depend: a Reshape's target, axes of a Squeeze."""
    fed = {value.name for value in graph.input}
    named = [(each.name, each) for each in graph.initializer if each.name not in fed]
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain and len(node.attribute) == 1:
            named += [(name, node.attribute[0].t) for name in node.output]
    found: dict[str, bytes] = {}
    for name, tensor in named:
        dims = lengths_of(tensor.dims)
        is_whole = tensor.data_type == tensor.INT64 and tensor.data_location != tensor.EXTERNAL
        if is_whole and dims is not None and len(dims) < 2 and prod(dims) <= _MAX_DATA:
            found[name] = tensor.SerializeToString()
    return found
