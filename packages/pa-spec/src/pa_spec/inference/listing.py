"""Rules about a node's list of outputs: V55, V56, V57."""

from __future__ import annotations

from collections.abc import Sequence

from pa_spec.contract.rule import rules
from pa_spec.errors import ContractViolation
from pa_spec.inference.shape import SymbolicTensor
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

_CACHE_OUTPUTS = ((1, "key_cache"), (2, "value_cache"))


def check_outputs(
    attributes: PagedAttentionAttributes,
    inputs: PagedAttentionInputs[SymbolicTensor],
    outputs: Sequence[bool],
) -> tuple[ContractViolation, ...]:
    """Return what is wrong with a list of outputs, given which of its entries have names."""
    is_latent = attributes.kv_cache_layout == "LATENT"
    found = _check_latent(outputs) if is_latent else _check_separate(outputs)
    if found:
        return found
    return tuple(_check_caches(inputs, outputs))


def _check_latent(outputs: Sequence[bool]) -> tuple[ContractViolation, ...]:
    """V55 and V56: one cache output at most, before the scores."""
    if len(outputs) > 4:
        return (rules()["V55"].violation("outputs", f"{len(outputs)} entries", "latent"),)
    if len(outputs) > 2 and outputs[2]:
        return (rules()["V56"].violation("value_cache_out", "an output"),)
    return ()


def _check_separate(outputs: Sequence[bool]) -> tuple[ContractViolation, ...]:
    """V55: how many entries there are, and both cache outputs named or neither."""
    count = len(outputs)
    if count not in (1, 3, 4):
        return (rules()["V55"].violation("outputs", f"{count} entries", "count"),)
    if count > 1 and outputs[1] is not outputs[2]:
        absent = "value_cache_out" if outputs[1] else "key_cache_out"
        return (rules()["V55"].violation(absent, "an empty name", "pair"),)
    return ()


def _check_caches(
    inputs: PagedAttentionInputs[SymbolicTensor], outputs: Sequence[bool]
) -> list[ContractViolation]:
    """V57: a cache output is the buffer of an input of rank 4."""
    found: list[ContractViolation] = []
    caches = {"key_cache": inputs.key_cache, "value_cache": inputs.value_cache}
    for index, name in _CACHE_OUTPUTS:
        if len(outputs) <= index or not outputs[index]:
            continue
        cache = caches[name]
        output = f"{name}_out"
        if cache is None:
            found.append(rules()["V57"].violation(output, "none", "absent", cache=name))
        elif cache.shape is not None and len(cache.shape) != 4:
            actual = f"rank {len(cache.shape)}"
            found.append(rules()["V57"].violation(output, actual, "rank", cache=name))
    return found
