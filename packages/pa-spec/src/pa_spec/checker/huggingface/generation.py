"""The values of generation_config.json that a request takes its parameters from."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.setting import as_number
from pa_spec.checker.text import shown

FILE = "generation_config.json"
_INT32_MAX = 2**31 - 1

# The ranges that V87 has for the parameters of a request.
_LEAST = {
    "top_k": 0,
    "no_repeat_ngram_size": 0,
    "max_new_tokens": 1,
    "max_length": 0,
    "min_new_tokens": 0,
    "min_length": 0,
}
_MOST = {"temperature": inf, "top_p": 1.0, "repetition_penalty": inf}


def check_generation(document: Mapping[str, Any], findings: Findings) -> None:
    """Report values that no request can be made with; null says nothing, as no key does."""
    for key in ("do_sample", *_MOST, *_LEAST):
        value = document.get(key)
        allowed = "" if value is None else _refused(key, value)
        if allowed:
            place = Place(FILE, key)
            findings.add("generation.wrong_value", place, key, shown(value), allowed=allowed)


def _refused(key: str, value: object) -> str:
    """Return what a key's value has to be, "" when it is that."""
    if key == "do_sample":
        return "" if isinstance(value, bool) else "true or false"
    if key in _LEAST:
        least = _LEAST[key]
        is_legal = type(value) is int and least <= value <= _INT32_MAX
        return "" if is_legal else f"an integer from {least} to {_INT32_MAX}"
    number = as_number(value, "float")
    is_inside = number is not None and 0 <= number <= _MOST[key]
    if key == "repetition_penalty":
        return "" if is_inside and number != 0 else "a number above 0"
    return "" if is_inside else "a number from 0" + (" to 1" if key == "top_p" else "")
