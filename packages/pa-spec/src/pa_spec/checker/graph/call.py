"""Builds the call that a PagedAttention node stands for."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.graph import GraphNode, GraphTensor, TensorSource
from pa_spec.checker.graph.witness import summed_symbol, witness_shapes
from pa_spec.checker.tensor_text import name_text, shape_text
from pa_spec.contract.operator_table import operator_inputs
from pa_spec.element_type import ElementType
from pa_spec.errors import ContractViolation
from pa_spec.inference import Extent, SymbolicTensor
from pa_spec.operator import (
    CallSignature,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    TensorSignature,
)
from pa_spec.validation.call import ACTIVATION_TYPES, QUANTIZED_TYPES, allowed

_UNKNOWN = SymbolicTensor(None, None)
_QUANTIZED = ElementType.INT8
# Whose first axis is called so in the messages of rules.
_LETTERS = {"block_table": "B", "query": "T"}


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A node as a call.

    tensors: what is known of each input that is there. signature: with extents for all that is
    not. undecided: inputs whose shape or type was assumed.
    """

    tensors: dict[str, SymbolicTensor]
    signature: CallSignature
    undecided: tuple[str, ...]

    def symbolic_inputs(self) -> PagedAttentionInputs[SymbolicTensor]:
        """Return the inputs with their symbols; required ones that are missing are unknown."""
        found = {each.name: self.tensors.get(each.name) for each in operator_inputs()}
        for each in operator_inputs():
            if each.presence == "required" and found[each.name] is None:
                found[each.name] = _UNKNOWN
        return PagedAttentionInputs(**found)  # type: ignore[arg-type]


def inputs_by_name(node: GraphNode) -> dict[str, GraphTensor]:
    """Return the inputs that a node has, by the operator's names."""
    pairs = zip(operator_inputs(), node.inputs, strict=False)
    return {each.name: tensor for each, tensor in pairs if tensor is not None}


def node_call(
    node: GraphNode, attributes: PagedAttentionAttributes, block_size: int | None
) -> NodeCall:
    """Return the call of a node; what is not known is whatever is legal."""
    inputs = inputs_by_name(node)
    tensors = {name: each.tensor for name, each in inputs.items()}
    named = {each.name: tensors.get(each.name) for each in operator_inputs()}
    complete = {
        each.name: tensor if (tensor := named[each.name]) is not None else _UNKNOWN
        for each in operator_inputs()
        if named[each.name] is not None or each.presence == "required"
    }
    shapes, undecided = witness_shapes(attributes, complete, block_size)
    types = _element_types(attributes, complete)
    untyped = [name for name, each in tensors.items() if _is_untyped(each)]
    known = [n for n, e in inputs.items() if e.source is not TensorSource.UNDEFINED]
    signatures = {name: TensorSignature(types[name], shape) for name, shape in shapes.items()}
    absent = {each.name: None for each in operator_inputs()}
    call = CallSignature(
        attributes,
        PagedAttentionInputs(**{**absent, **signatures}),  # type: ignore[arg-type]
        output_qk_type=_scores_type(node, types["query"]),
    )
    # An input that is no tensor of any type here is reported for that.
    known = [name for name in known if not tensors[name].other_type]
    open_names = [name for name in known if name in undecided or name in untyped]
    return NodeCall(tensors, call, tuple(open_names))


def report_other_types(call: NodeCall, place: Place, findings: Findings) -> None:
    """Report V98 for element types that no rule of a call knows."""
    attributes = call.signature.attributes
    for name, tensor in call.tensors.items():
        if tensor.other_type and not _is_reserved(name, attributes):
            findings.add("V98", place, name, name_text(tensor.other_type), allowed=_allowed(name))


def in_symbols(violation: ContractViolation, call: NodeCall) -> ContractViolation:
    """Return a violation in the file's own words: its symbols instead of assumed lengths."""
    expected, actual = violation.expected, violation.actual
    for name, assumed in call.signature.inputs.named():
        tensor = call.tensors.get(name)
        if tensor is None or assumed is None or tensor.shape is None:
            continue
        lengths, symbols = shape_text(assumed.shape), shape_text(tensor.shape)
        if name == violation.name:
            actual = actual.replace(lengths, symbols)
        elif name in expected:
            expected = expected.replace(lengths, symbols)
        if name == "cumulative_sequence_length" and len(assumed.shape) == 1:
            expected = expected.replace(f"B={assumed.shape[0] - 1}", _rows_text(tensor.shape))
        letter = _LETTERS.get(name)
        if letter and tensor.shape and not isinstance(tensor.shape[0], int):
            expected = expected.replace(f"{letter}={assumed.shape[0]}", letter)
    return ContractViolation(violation.rule_id, violation.name, expected, actual)


def _rows_text(shape: tuple[Extent, ...]) -> str:
    """Return the number of rows as the boundaries' length says it."""
    length = shape[0] if shape else None
    if isinstance(length, int):
        return f"B={length - 1}"
    symbol, added = summed_symbol(length) if length is not None else ("", 0)
    return f"B={name_text(symbol)} + {added - 1}" if added > 1 else "B"


def _is_reserved(name: str, attributes: PagedAttentionAttributes) -> bool:
    """Whether a cache holds a reserved type, which V50 reports."""
    reserved = ("int4", "float4e2m1")
    side = {"key_cache": "k_cache_dtype", "value_cache": "v_cache_dtype"}.get(name, "")
    return bool(side) and getattr(attributes, side) in reserved


def _is_untyped(tensor: SymbolicTensor) -> bool:
    return tensor.element_type is None and not tensor.other_type


def _element_types(
    attributes: PagedAttentionAttributes, tensors: dict[str, SymbolicTensor]
) -> dict[str, ElementType]:
    """Return each input's element type; one that is unknown is what the call needs."""
    kinds = {each.name: each.type for each in operator_inputs()}
    stated = [
        tensor.element_type
        for name, tensor in tensors.items()
        if kinds[name] == "T" and tensor.element_type in ACTIVATION_TYPES
    ]
    activation = stated[0] if stated and stated[0] is not None else ElementType.FLOAT16
    query = tensors["query"].element_type or activation
    legal = {"T": query, "S": ElementType.INT32, "T_KV_SCALE": ElementType.FLOAT32}
    found: dict[str, ElementType] = {}
    for name, tensor in tensors.items():
        assumed = legal.get(kinds[name], query)
        if name in ("key_cache", "value_cache"):
            assumed = _cache_type(attributes, tensors, name, query)
        found[name] = tensor.element_type or assumed
    return found


def _cache_type(
    attributes: PagedAttentionAttributes,
    tensors: dict[str, SymbolicTensor],
    name: str,
    query: ElementType,
) -> ElementType:
    other = tensors.get("value_cache" if name == "key_cache" else "key_cache")
    if other is not None and other.element_type is not None:
        return other.element_type
    quant_type = getattr(attributes, "v_quant_type" if name == "value_cache" else "k_quant_type")
    named = getattr(attributes, "v_cache_dtype" if name == "value_cache" else "k_cache_dtype")
    for each in (*QUANTIZED_TYPES, *ACTIVATION_TYPES):
        if each.value == named:
            return each
    return query if quant_type == "NONE" else _QUANTIZED


def _scores_type(node: GraphNode, query: ElementType) -> ElementType | None:
    """Return the element type of output 3, None when the node has none."""
    if len(node.outputs) <= 3 or node.outputs[3] is None:
        return None
    declared = node.declared[3] if len(node.declared) > 3 else None
    return declared.element_type if declared and declared.element_type else query


def _allowed(name: str) -> str:
    kind = next(each.type for each in operator_inputs() if each.name == name)
    if kind == "T_CACHE":
        return allowed(ACTIVATION_TYPES + QUANTIZED_TYPES)
    if kind == "T":
        return allowed(ACTIVATION_TYPES)
    return "int32" if kind == "S" else "float32"
