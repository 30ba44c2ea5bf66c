"""The golden problems of spec/vectors/attention.json and attention_sizes.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from pa_spec.arrays import Float64Array
from pa_spec.conformance.call import OperatorCall, signature_of
from pa_spec.conformance.element import Array, encode
from pa_spec.conformance.problem import (
    CACHES,
    Expected,
    Fill,
    Problem,
    filled_cache,
)
from pa_spec.conformance.wanted import EXACT, Tolerance, Wanted, Written, drawn, whole, written
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
    return (*_problems("attention"), *_problems("attention_sizes"))


def _problems(name: str) -> Iterator[Problem]:
    file = document(f"vectors/{name}.json")
    tolerances = {
        row["element_type"]: Tolerance(row["absolute"], row["relative"])
        for row in file["tolerances"]
    }
    for case in file["cases"]:
        for each in case["element_types"]:
            yield problem_of(case, ElementType(each), tolerances[each], name)


def problem_of(
    case: Case, element_type: ElementType, near: Tolerance, area: str = "attention"
) -> Problem:
    """Return one golden problem in one element type of queries; area: first part of its id."""
    expected = case["expected"]
    return Problem(
        f"{area}/{case['id']}/{element_type.value}",
        cache(partial(_build, case, element_type)),
        Expected(
            output=_wanted(expected["output"]),
            output_qk=_wanted(expected["output_qk"]) if "output_qk" in expected else None,
            slots={name: _written(case, name) for name in CACHES},
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
            arrays[name] = filled_cache(tuple(given["shape"]), types[name], _held(given), fill)
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
    """Read nested lists, in which "nan", "inf" and "-inf" are words, or a shape: drawn or empty."""
    if isinstance(values, dict):
        return drawn(values["shape"], values.get("drawn", 0))
    return np.array(values, np.float64)


def _wanted(values: Any) -> Wanted:
    if isinstance(values, dict) and "step" in values:
        return Wanted(tuple(values["shape"]), _numbers(values["values"]), values["step"])
    return whole(_numbers(values))


def _written(case: Case, name: str) -> Written:
    values = case["expected"].get(name, {})
    if "step" not in values:
        return written(_slots(values))
    shape = (len(values["slots"]), *case[name]["shape"][2:])
    return Written(
        tuple(values["slots"]), Wanted(shape, _numbers(values["values"]), values["step"])
    )


def _held(given: Mapping[str, Any]) -> Mapping[int, Float64Array]:
    """Return the slots of a cache that hold a token; drawn int8 codes are the numbers times 8."""
    if "drawn" not in given:
        return _slots(given["slots"])
    blocks, size, *heads = given["shape"]
    contents = drawn((blocks * size, *heads), given["drawn"])
    contents = contents * 8 if given.get("element_type") == ElementType.INT8.value else contents
    return {slot: contents[slot] for first, end in given["runs"] for slot in range(first, end)}


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
