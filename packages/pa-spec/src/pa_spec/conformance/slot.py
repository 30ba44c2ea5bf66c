"""Golden problems of storing: which slots, and which numbers in eight bits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from pa_spec.arrays import Float64Array
from pa_spec.conformance.call import OperatorCall, signature_of
from pa_spec.conformance.element import Array, decode, encode
from pa_spec.conformance.problem import (
    CACHES,
    Expected,
    Fill,
    Problem,
    filled_cache,
)
from pa_spec.conformance.wanted import EXACT, written
from pa_spec.contract.vector import vectors
from pa_spec.element_type import ElementType
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs

_WIDTH = 8
_QUERY_TYPES = (ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16)
_PLACES = ("cumulative_sequence_length", "past_seqlens", "block_table")


@cache
def slot_problems() -> tuple[Problem, ...]:
    """Return the cases of derived_slots.json: token t stores the number t + 1 everywhere."""
    return tuple(
        _placing(case, element_type)
        for case in vectors("derived_slots")
        for element_type in _QUERY_TYPES
    )


@cache
def quantization_problems() -> tuple[Problem, ...]:
    """Return the cases of quantization_rounding.json: one token, stored in slot 0.

    A case holds for the element types that have its numbers.
    """
    return tuple(
        _rounding(case, element_type)
        for case in vectors("quantization_rounding")
        for element_type in _QUERY_TYPES
        if decode(encode(case["values"], element_type), element_type).tolist() == case["values"]
    )


def _placing(case: Mapping[str, Any], element_type: ElementType) -> Problem:
    marks = np.repeat(np.arange(1.0, len(case["slots"]) + 1)[:, None], _WIDTH, axis=1)
    placed = zip(case["slots"], marks, strict=True)
    slots = written({slot: mark[None, :] for slot, mark in placed if slot >= 0})
    return Problem(
        f"derived_slots/{case['id']}/{element_type.value}",
        cache(partial(_marked_call, case, marks, element_type)),
        Expected(None, None, {"key_cache": slots, "value_cache": slots}, EXACT),
    )


def _rounding(case: Mapping[str, Any], element_type: ElementType) -> Problem:
    slots = written({0: np.array([case["stored"]], np.float64)})
    numbers = np.array([case["values"]], np.float64)
    return Problem(
        f"quantization_rounding/{case['id']}/{element_type.value}",
        cache(partial(_quantizing_call, case, numbers, element_type)),
        Expected(None, None, {"key_cache": slots, "value_cache": slots}, EXACT),
    )


def _marked_call(
    case: Mapping[str, Any], marks: Float64Array, element_type: ElementType, fill: Fill
) -> OperatorCall:
    shape = (case["num_blocks"], case["block_size"], 1, _WIDTH)
    places = {name: np.array(case[name], np.int32) for name in _PLACES}
    caches = {name: filled_cache(shape, element_type, {}, fill) for name in CACHES}
    return _call(marks, element_type, places | caches, {})


def _quantizing_call(
    case: Mapping[str, Any], numbers: Float64Array, element_type: ElementType, fill: Fill
) -> OperatorCall:
    cache_type = ElementType(case["element_type"])
    places = {
        "cumulative_sequence_length": np.array([0, 1], np.int32),
        "past_seqlens": np.array([0], np.int32),
        "block_table": np.array([[0]], np.int32),
    }
    caches = {name: filled_cache((1, 16, 1, _WIDTH), cache_type, {}, fill) for name in CACHES}
    scales = {name: np.array([case["scale"]], np.float32) for name in ("k_scale", "v_scale")}
    attributes = dict.fromkeys(("k_quant_type", "v_quant_type"), "PER_TENSOR")
    return _call(numbers, element_type, places | caches | scales, attributes, cache_type)


def _call(
    numbers: Float64Array,
    element_type: ElementType,
    arrays: Mapping[str, Array],
    attributes: Mapping[str, Any],
    cache_type: ElementType | None = None,
) -> OperatorCall:
    rows = {name: encode(numbers, element_type) for name in ("key", "value")}
    inputs: PagedAttentionInputs[Array] = PagedAttentionInputs(
        query=encode(np.zeros(numbers.shape), element_type), **rows, **arrays
    )
    types = dict.fromkeys(("query", "key", "value"), element_type)
    types |= dict.fromkeys(CACHES, cache_type or element_type)
    types |= dict.fromkeys(("k_scale", "v_scale"), ElementType.FLOAT32)
    signature = signature_of(inputs, types, PagedAttentionAttributes(1, 1, **attributes))
    return OperatorCall(inputs, signature)
