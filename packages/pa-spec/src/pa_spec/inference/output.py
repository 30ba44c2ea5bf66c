"""Shapes and types of the operator's outputs, from a call whose extents may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pa_spec.contract.rule import rules
from pa_spec.element_type import ElementType
from pa_spec.inference.listing import check_outputs
from pa_spec.inference.shape import Extent, SymbolicTensor
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

UNKNOWN_TENSOR = SymbolicTensor(None, None)


@dataclass(frozen=True, slots=True)
class SymbolicCall:
    """A call before it runs.

    metadata: the values of attention_metadata where they are known. output_qk_type: the element
    type that output 3 was declared with, None = unknown.
    """

    attributes: PagedAttentionAttributes
    inputs: PagedAttentionInputs[SymbolicTensor]
    metadata: tuple[int, ...] | None = None
    output_qk_type: ElementType | None = None


def infer_outputs(call: SymbolicCall, outputs: Sequence[bool]) -> tuple[SymbolicTensor | None, ...]:
    """Return what each listed output will be; what the call does not tell stays unknown.

    outputs: for each entry of the node's list whether it has a name; unused entries yield None.
    Symbolic extents stay symbolic, and a product with one is unknown.

    Raises ContractViolation for what makes the shapes meaningless: V1, V2, V5, V6, V9, V15, V18,
    V19, V55, V56, V57, V58.
    """
    for violation in check_outputs(call.attributes, call.inputs, outputs):
        raise violation
    _check_heads(call.attributes)
    inputs = call.inputs
    unnamed = inputs.value_cache or UNKNOWN_TENSOR
    known = (_output(call), inputs.key_cache, unnamed, _scores(call))
    return tuple(known[index] if named else None for index, named in enumerate(outputs))


def infer_head_size(call: SymbolicCall) -> Extent:
    """Return D: of query's width where that is static, else of the key cache's last axis.

    Raises ContractViolation when query's rank or width is impossible (V9, V15, V18, V58).
    """
    attributes, query = call.attributes, call.inputs.query.shape
    if query is not None:
        if len(query) != 2:
            raise rules()["V9"].violation("query", _text(query))
        if isinstance(query[1], int):
            heads, kv_heads = attributes.num_heads, attributes.kv_num_heads
            divisor = heads + 2 * kv_heads if is_packed(call) else heads
            if query[1] <= 0 or query[1] % divisor:
                raise _indivisible(call, divisor)
            return query[1] // divisor
    cache = call.inputs.key_cache.shape
    return cache[3] if cache is not None and len(cache) == 4 else None


def is_packed(call: SymbolicCall) -> bool:
    """Whether query holds keys and values too; the layout is looked at first (section 6)."""
    if call.attributes.kv_cache_layout == "LATENT":
        return False
    return call.inputs.key is None and call.inputs.value is None


def _output(call: SymbolicCall) -> SymbolicTensor:
    """Output 0, [T, H*Dv]: query's own width wherever that equals it, symbolic or not."""
    attributes, query = call.attributes, call.inputs.query
    head_size = infer_head_size(call)
    tokens = query.shape[0] if query.shape is not None else None
    width: Extent = None
    if attributes.kv_cache_layout == "LATENT" and attributes.v_head_size:
        _check_value_width(attributes, head_size)
        width = attributes.num_heads * attributes.v_head_size
    elif not is_packed(call) and query.shape is not None:
        width = query.shape[1]
    if width is None and isinstance(head_size, int):
        width = attributes.num_heads * head_size
    return SymbolicTensor(query.element_type, (tokens, width), query.other_type)


def _scores(call: SymbolicCall) -> SymbolicTensor:
    """Output 3, [H, T, context]."""
    query = call.inputs.query.shape
    tokens = query[0] if query is not None else None
    return SymbolicTensor(call.output_qk_type, (call.attributes.num_heads, tokens, _context(call)))


def _context(call: SymbolicCall) -> Extent:
    """Return the KV bound of attention_metadata, at most what a row of the table addresses."""
    table, cache = call.inputs.block_table.shape, call.inputs.key_cache.shape
    columns = table[1] if table is not None and len(table) == 2 else None
    block_size = cache[1] if cache is not None and len(cache) == 4 else None
    capacity: Extent = None
    if isinstance(columns, int) and isinstance(block_size, int):
        capacity = columns * block_size
    if call.inputs.attention_metadata is None:
        return capacity
    if call.metadata is None or len(call.metadata) < 2:
        return None
    bound = call.metadata[1]
    if bound <= 0:
        return capacity
    return min(bound, capacity) if isinstance(capacity, int) else None


def _check_heads(attributes: PagedAttentionAttributes) -> None:
    heads, kv_heads = attributes.num_heads, attributes.kv_num_heads
    if attributes.kv_cache_layout not in ("SEPARATE", "LATENT"):
        found = repr(attributes.kv_cache_layout)
        raise rules()["V5"].violation("kv_cache_layout", found, allowed="SEPARATE, LATENT")
    if heads <= 0:
        raise rules()["V1"].violation("num_heads", str(heads))
    if kv_heads <= 0 or heads % kv_heads:
        raise rules()["V2"].violation("kv_num_heads", str(kv_heads), num_heads=heads)


def _check_value_width(attributes: PagedAttentionAttributes, head_size: Extent) -> None:
    width = attributes.v_head_size
    if width < 0:
        raise rules()["V6"].violation("v_head_size", str(width))
    if isinstance(head_size, int) and width > head_size:
        raise rules()["V19"].violation("v_head_size", str(width), D=head_size)


def _indivisible(call: SymbolicCall, divisor: int) -> Exception:
    found = _text(call.inputs.query.shape or ())
    if is_packed(call):
        return rules()["V15"].violation("query", found, divisor=divisor)
    if call.attributes.kv_cache_layout == "LATENT":
        return rules()["V18"].violation("query", found, "query", num_heads=divisor)
    return rules()["V58"].violation("query", found, num_heads=divisor)


def _text(shape: tuple[Extent, ...]) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"
