"""The golden problems of spec/vectors/attention.json."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from pa_spec.arrays import Float64Array
from pa_spec.conformance.call import OperatorCall, signature_of
from pa_spec.conformance.element import Array, encode
from pa_spec.conformance.problem import (
    CACHES,
    EXACT,
    Expected,
    Fill,
    Problem,
    Tolerance,
    filled_cache,
)
from pa_spec.contract.data import document
from pa_spec.element_type import ElementType
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

Case = Mapping[str, Any]

_FLOAT32_INPUTS = frozenset({"k_scale", "v_scale"})
_REALS = frozenset({"scale", "softcap", "qk_norm_epsilon"})
_INDEX_INPUTS = frozenset(
    {
        "cumulative_sequence_length",
        "past_seqlens",
        "block_table",
        "slot_mapping",
        "attention_metadata",
        "query_positions",
    }
)


@cache
def attention_problems() -> tuple[Problem, ...]:
    """Return every golden problem once for each element type that it is meant for."""
    file = document("vectors/attention.json")
    tolerances = {
        row["element_type"]: Tolerance(row["absolute"], row["relative"])
        for row in file["tolerances"]
    }
    return tuple(
        problem_of(case, ElementType(name), tolerances[name])
        for case in file["cases"]
        for name in case["element_types"]
    )


def problem_of(case: Case, element_type: ElementType, near: Tolerance) -> Problem:
    """Return one golden problem in one element type of queries."""
    expected = case["expected"]
    return Problem(
        f"attention/{case['id']}/{element_type.value}",
        cache(partial(_build, case, element_type)),
        Expected(
            output=_numbers(expected["output"]),
            output_qk=_numbers(expected["output_qk"]) if "output_qk" in expected else None,
            slots={name: _slots(expected.get(name, {})) for name in CACHES},
            near=near,
            stored=near if case["rounds"] else EXACT,
        ),
    )


def _build(case: Case, element_type: ElementType, fill: Fill) -> OperatorCall:
    arrays: dict[str, Any] = {}
    types: dict[str, ElementType] = {}
    for name, values in case["inputs"].items():
        types[name] = _type_of(name, element_type)
        arrays[name] = encode(_numbers(values), types[name])
    for name in CACHES:
        given = case.get(name)
        if given is not None:
            types[name] = ElementType(given.get("element_type", element_type.value))
            slots = _slots(given["slots"])
            arrays[name] = filled_cache(tuple(given["shape"]), types[name], slots, fill)
    if case.get("is_strided"):
        arrays.update(_as_slices({name: arrays[name] for name in ("query", "key", "value")}))
    for name in ("key", "value", "value_cache"):
        arrays.setdefault(name, None)
    inputs: PagedAttentionInputs[Array] = PagedAttentionInputs(**arrays)
    words: dict[str, Any] = {
        name: float(each) if name in _REALS else each for name, each in case["attributes"].items()
    }
    attributes = PagedAttentionAttributes(**words)
    scores = ElementType.FLOAT32 if attributes.qk_output else None
    return OperatorCall(inputs, signature_of(inputs, types, attributes, scores))


def _type_of(name: str, element_type: ElementType) -> ElementType:
    if name in _INDEX_INPUTS:
        return ElementType.INT32
    return ElementType.FLOAT32 if name in _FLOAT32_INPUTS else element_type


def _numbers(values: Any) -> Float64Array:
    """Read nested lists, in which "nan", "inf" and "-inf" are words, or the shape of an empty."""
    if isinstance(values, dict):
        return np.zeros(values["shape"])
    return np.array(values, np.float64)


def _slots(slots: Mapping[str, Any]) -> dict[int, Float64Array]:
    return {int(slot): _numbers(values) for slot, values in slots.items()}


def _as_slices(parts: Mapping[str, Array]) -> dict[str, Array]:
    """Lay arrays side by side in one, with a margin, so that their rows are strided."""
    widths = [array.shape[1] for array in parts.values()]
    rows = next(iter(parts.values())).shape[0]
    whole = np.zeros((rows, sum(widths) + 8), next(iter(parts.values())).dtype)
    found, first = {}, 0
    for (name, array), width in zip(parts.items(), widths, strict=True):
        whole[:, first : first + width] = array
        found[name] = whole[:, first : first + width]
        first += width
    return found
