"""Goal: the golden attention problems are right. Method: write the file again, by other rules."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from attention_evaluator import Evaluator, rounded_to_float8
from attention_vectors import FILES, VECTORS
from pa_spec import validate, vectors
from pa_spec.conformance import FEATURES, decode, encode, features_of
from pa_spec.conformance.attention import attention_problems
from pa_spec.element_type import ElementType
from vector_text import vector_text


def case_of(name: str) -> Mapping[str, Any]:
    return next(case for case in vectors("attention") if case["id"] == name)


@pytest.mark.parametrize("name", FILES)
def test_the_formulas_alone_give_the_committed_file(name: str) -> None:
    assert (VECTORS / name).read_text("utf-8") == vector_text(FILES[name]())


def test_every_problem_is_a_legal_call() -> None:
    broken = {
        problem.id: violations
        for problem in attention_problems()
        if (violations := validate(problem.signature))
    }

    assert broken == {}


@pytest.mark.parametrize("case", vectors("attention"), ids=lambda case: str(case["id"]))
def test_given_numbers_are_exact_in_every_element_type_that_a_case_names(
    case: Mapping[str, Any],
) -> None:
    values = [case["inputs"][name] for name in ("query", "key", "value") if name in case["inputs"]]
    values += [slots for name in ("key_cache", "value_cache") for slots in _slots(case, name)]
    for element_type in map(ElementType, case["element_types"]):
        for each in values:
            numbers = np.array([] if isinstance(each, dict) else each, np.float64)
            same = decode(encode(numbers, element_type), element_type)
            assert np.array_equal(same, numbers, equal_nan=True)


def _slots(case: Mapping[str, Any], name: str) -> list[Any]:
    return list(case[name]["slots"].values()) if name in case else []


def test_a_token_alone_yields_its_value() -> None:
    case = case_of("one_token")

    assert case["expected"]["output"] == case["inputs"]["value"]
    assert case["expected"]["key_cache"]["16"] == case["inputs"]["key"]


def test_probabilities_of_two_keys_follow_from_their_logits() -> None:
    """The first query of "prompt" sees one key, the second two; worked out with paper and exp."""
    case = case_of("prompt")
    query, keys = case["inputs"]["query"][1], case["inputs"]["key"][:2]
    logits = [sum(a * b for a, b in zip(query, key, strict=True)) / 8**0.5 for key in keys]
    first = 1 / (1 + 2.718281828459045 ** (logits[1] - logits[0]))

    expected = [
        first * a + (1 - first) * b for a, b in zip(*case["inputs"]["value"][:2], strict=True)
    ]

    assert case["expected"]["output"][1] == pytest.approx(expected, abs=1e-8)


def test_windows_decide_by_one_token() -> None:
    """The window of 4 shows in the output exactly when a fifth key is there."""
    for name, keys in (("window_as_long_as_context", 4), ("window_shorter_than_context", 4)):
        case = case_of(name)
        slots = [each[0] for each in case["key_cache"]["slots"].values()]
        seen = [*slots, case["inputs"]["key"][0]][-keys:]
        values = [each[0] for each in case["value_cache"]["slots"].values()]
        mixed = np.array([*values, case["inputs"]["value"][0]][-keys:])
        logits = np.array(seen) @ np.array(case["inputs"]["query"][0]) / 8**0.5
        weights = np.exp(logits) / np.exp(logits).sum()

        assert case["expected"]["output"][0] == pytest.approx((weights @ mixed).tolist(), abs=1e-8)


def test_eight_bit_floats_round_as_their_formula_says() -> None:
    numbers = np.concatenate([np.linspace(-500, 500, 4001), np.linspace(-0.1, 0.1, 4001)])

    found = decode(encode(numbers, ElementType.FLOAT8E4M3FN), ElementType.FLOAT8E4M3FN)

    assert found.tolist() == [rounded_to_float8(float(each)) for each in numbers]


def test_every_feature_has_a_problem_that_uses_it() -> None:
    used = {each for problem in attention_problems() for each in features_of(problem.signature)}

    assert used == set(FEATURES)


@pytest.mark.parametrize("name", ["decode", "later_chunk", "int8_per_channel", "latent"])
def test_a_slot_that_holds_no_token_cannot_be_read_by_the_formulas(name: str) -> None:
    """Numbers of slots without a token do not exist for them, so they cannot leak."""
    case = deepcopy(dict(case_of(name)))
    case["key_cache"]["slots"].popitem()

    with pytest.raises(KeyError):
        Evaluator(case).evaluate()
