"""Tells mistakes from their consequences.

One wrong extent or attribute can break several rules. If changing one thing of a call resolves
several violations at once and breaks nothing, they are one mistake, reported by the rule that
speaks of that thing, else by the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from pa_spec.element_type import ElementType
from pa_spec.errors import ContractViolation
from pa_spec.inference import SymbolicTensor, check_outputs
from pa_spec.operator import CallSignature, PagedAttentionInputs, TensorSignature
from pa_spec.validation import validate

_PACKED_CACHES = frozenset(
    ("k_cache_dtype", "v_cache_dtype", "key_cache", "value_cache", "k_scale", "v_scale")
)
_FOLLOWERS = (
    "key", "value", "cos_cache", "sin_cache", "head_sink", "q_norm_weight", "k_norm_weight",
)  # fmt: skip
_QUERY_TYPE = "query's type"

_Change = tuple[str, CallSignature]


@lru_cache(maxsize=1024)
def mistakes(signature: CallSignature, outputs: tuple[bool, ...]) -> tuple[ContractViolation, ...]:
    """Return one violation for each mistake of a call; layers alike are judged once.

    outputs: for each entry of the node's list whether it has a name.
    """
    left = _judge(signature, outputs)
    if any(each.rule_id == "V50" for each in left):
        # A reserved type packs two elements in a byte: its caches fit no rule about caches.
        return tuple(e for e in left if e.rule_id == "V50" or e.name not in _PACKED_CACHES)
    found: list[ContractViolation] = []
    while len(left) > 1:
        best = _best_change(signature, outputs, left)
        if best is None:
            break
        (name, signature), resolved, left = best
        found.append(_spokesman(name, signature, resolved))
    return (*found, *left)


def _judge(signature: CallSignature, outputs: tuple[bool, ...]) -> tuple[ContractViolation, ...]:
    """Return every rule that a node breaks; V57 only where no rule about the cache says it."""
    found = validate(signature)
    said = {each.name for each in found if each.rule_id in ("V22", "V27", "V28")}
    known = {
        name: None if tensor is None else SymbolicTensor(tensor.element_type, tensor.shape)
        for name, tensor in signature.inputs.named()
    }
    inputs: PagedAttentionInputs[SymbolicTensor] = PagedAttentionInputs(
        **known  # type: ignore[arg-type]
    )
    wrong = check_outputs(signature.attributes, inputs, outputs)
    if any(each.rule_id == "V55" for each in wrong):
        # A list of the wrong length has no fourth entry to speak of.
        found = tuple(each for each in found if each.rule_id != "V69")
    return (*found, *(each for each in wrong if each.name.removesuffix("_out") not in said))


def _best_change(
    signature: CallSignature, outputs: tuple[bool, ...], left: tuple[ContractViolation, ...]
) -> tuple[_Change, tuple[ContractViolation, ...], tuple[ContractViolation, ...]] | None:
    """Return the change that resolves most, with what it resolves and what then is left."""
    best = None
    for change in _changes(signature):
        after = _judge(change[1], outputs)
        kept = {(each.rule_id, each.name) for each in after}
        resolved = tuple(each for each in left if (each.rule_id, each.name) not in kept)
        is_better = len(resolved) > (1 if best is None else len(best[1]))
        if is_better and len(after) == len(left) - len(resolved):
            best = change, resolved, after
    return best


def _spokesman(
    name: str, signature: CallSignature, resolved: tuple[ContractViolation, ...]
) -> ContractViolation:
    if name == _QUERY_TYPE:
        # The rules compare all with query, so none of them says that query is the odd one.
        first = next(each for each in resolved if each.rule_id in ("V98", "V45", "V44"))
        return ContractViolation(
            "V98", "query", f"{signature.inputs.query.element_type.value} as {first.name}",
            first.expected.partition(" ")[0],
        )  # fmt: skip
    return next((each for each in resolved if each.name == name), resolved[0])


def _changes(signature: CallSignature) -> Iterator[_Change]:
    """Yield what may have been meant: calls that differ in one thing from the one given."""
    yield from _attribute_changes(signature)
    yield from _shape_changes(signature)
    yield from _type_changes(signature)


def _attribute_changes(signature: CallSignature) -> Iterator[_Change]:
    attributes, inputs = signature.attributes, signature.inputs
    cache, query = inputs.key_cache.shape, inputs.query.shape
    if len(cache) == 4 and len(query) == 2 and cache[3] > 0:
        packed = inputs.key is None and inputs.value is None
        in_query = query[1] // cache[3]
        heads = in_query - (2 * attributes.kv_num_heads if packed else 0)
        yield "num_heads", _with_attributes(signature, num_heads=heads)
        yield "kv_num_heads", _with_attributes(signature, kv_num_heads=cache[2])
    for side in "kv":
        scale = inputs.k_scale if side == "k" else inputs.v_scale
        quant_type = "NONE"
        if scale is not None:
            quant_type = "PER_TENSOR" if prod(scale.shape) == 1 else "PER_CHANNEL"
        yield (
            f"{side}_quant_type",
            _with_attributes(signature, **{f"{side}_quant_type": quant_type}),
        )
    layout = "SEPARATE" if attributes.kv_cache_layout == "LATENT" else "LATENT"
    yield "kv_cache_layout", _with_attributes(signature, kv_cache_layout=layout)
    yield "rotary_offset", _with_attributes(signature, rotary_offset=0)


def _shape_changes(signature: CallSignature) -> Iterator[_Change]:
    inputs = signature.inputs
    cache, query = inputs.key_cache.shape, inputs.query.shape
    for name, other in (
        ("key_cache", inputs.value_cache),
        ("value_cache", inputs.key_cache),
        ("key", inputs.value),
        ("value", inputs.key),
        ("cos_cache", inputs.sin_cache),
        ("sin_cache", inputs.cos_cache),
    ):
        if other is not None and getattr(inputs, name) is not None:
            yield name, _with_shape(signature, name, other.shape)
    rows = inputs.past_seqlens.shape
    if len(rows) == 1:
        name = "cumulative_sequence_length"
        yield name, _with_shape(signature, name, (rows[0] + 1,))
    if len(query) == 2:
        if len(cache) == 4:
            heads, kv_heads = signature.attributes.num_heads, signature.attributes.kv_num_heads
            packed = inputs.key is None and inputs.value is None
            width = (heads + 2 * kv_heads if packed else heads) * cache[3]
            yield "query", _with_shape(signature, "query", (query[0], width))
        if inputs.key is not None and len(inputs.key.shape) == 2:
            yield "query", _with_shape(signature, "query", (inputs.key.shape[0], query[1]))


def _type_changes(signature: CallSignature) -> Iterator[_Change]:
    inputs = signature.inputs
    key, value = inputs.key_cache, inputs.value_cache
    if value is not None:
        yield "key_cache", _with_type(signature, "key_cache", value.element_type)
        yield "value_cache", _with_type(signature, "value_cache", key.element_type)
    others = {
        tensor.element_type for name in _FOLLOWERS if (tensor := getattr(inputs, name)) is not None
    }
    if len(others) == 1:
        yield _QUERY_TYPE, _with_type(signature, "query", others.pop())


def _with_attributes(signature: CallSignature, **values: object) -> CallSignature:
    attributes = replace(signature.attributes, **values)  # type: ignore[arg-type]
    return replace(signature, attributes=attributes)


def _with_shape(signature: CallSignature, name: str, shape: tuple[int, ...]) -> CallSignature:
    return _with_input(signature, name, lambda tensor: replace(tensor, shape=shape))


def _with_type(signature: CallSignature, name: str, kind: ElementType) -> CallSignature:
    return _with_input(signature, name, lambda tensor: replace(tensor, element_type=kind))


def _with_input(
    signature: CallSignature, name: str, change: Callable[[TensorSignature], TensorSignature]
) -> CallSignature:
    tensors: Mapping[str, TensorSignature | None] = dict(signature.inputs.named())
    found = tensors[name]
    changed = {**tensors, name: None if found is None else change(found)}
    inputs: PagedAttentionInputs[TensorSignature] = PagedAttentionInputs(
        **changed  # type: ignore[arg-type]
    )
    return replace(signature, inputs=inputs)
