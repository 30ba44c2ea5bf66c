"""What callers may ask of requests and turns: every bad value is refused before it is used."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from engine_cases import fake_engine
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import GeneratorParams, RequestOptions, TurnOptions
from pa_engine.options import fresh_seed
from pa_spec import ContractViolation

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NO_NUMBER = (math.nan, math.inf, -math.inf, True, False, "1", [1.0], None, 1j)
NO_INTEGER = (-1, 1.0, math.nan, math.inf, True, False, "1", [1], None)
NO_FLAG = (0, 1, None, "yes", 1.0, np.True_)

NUMBERS: dict[str, tuple[Any, ...]] = {
    "temperature": (*NO_NUMBER, -1e-9, -1, 1e39, 10**400),
    "top_p": (*NO_NUMBER, -1e-9, 1.0000001, 2),
    "repetition_penalty": (*NO_NUMBER, 0, 0.0, -1.0, 1e-39, 1e39),
}
COUNTS = ("top_k", "no_repeat_ngram_size", "min_generated_tokens", "max_generated_tokens")
INTEGERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(COUNTS, (*NO_INTEGER, INT32_MAX + 1)),
    "sample_index": (*NO_INTEGER, INT64_MAX + 1),
    "seed": (*(value for value in NO_INTEGER if value is not None), INT64_MAX + 1),
}
FLAGS: dict[str, tuple[Any, ...]] = {"do_sample": NO_FLAG, "ignore_eos": NO_FLAG}
EOS: dict[str, tuple[Any, ...]] = {
    "eos_token_ids": ([-1], [2.0], ["2"], [True], [INT32_MAX + 1], [1, None], 2, "2", b"2", {2})
}
BAD = [
    (name, value)
    for table in (NUMBERS, INTEGERS, FLAGS, EOS)
    for name, values in table.items()
    for value in values
]
GOOD = [
    ("temperature", (0, 0.0, 1e-6, 2, 100.0)),
    ("top_p", (0.0, 0, 0.5, 1, 1.0)),
    ("repetition_penalty", (1e-6, 1, 1.3, 10)),
    ("top_k", (0, 1, INT32_MAX)),
    ("no_repeat_ngram_size", (0, 1, INT32_MAX)),
    ("min_generated_tokens", (0, INT32_MAX)),
    ("max_generated_tokens", (0, INT32_MAX)),
    ("sample_index", (0, INT64_MAX)),
    ("seed", (None, 0, INT64_MAX)),
    ("do_sample", (True, False)),
    ("ignore_eos", (True, False)),
    ("eos_token_ids", (None, [], (0,), [1, INT32_MAX])),
]


@pytest.mark.parametrize(("name", "value"), BAD)
@pytest.mark.spec("V87")
def test_params_refuse_a_value_outside_its_range_and_name_it(name: str, value: Any) -> None:
    with pytest.raises(ContractViolation, match=name) as refused:
        GeneratorParams(**{name: value})

    assert (refused.value.rule_id, refused.value.name) == ("V87", name)
    assert refused.value.expected


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in GOOD for value in values]
)
def test_params_take_every_value_of_their_range(name: str, value: Any) -> None:
    taken = getattr(GeneratorParams(**{name: value}), name)

    assert taken == (tuple(value) if isinstance(value, list) else value)


def test_every_field_is_tried_with_good_and_bad_values() -> None:
    names = {field.name for field in fields(GeneratorParams)}

    assert {name for name, _ in BAD} == names
    assert {name for name, _ in GOOD} == names
    assert {field.name for field in fields(TurnOptions)} == names


@pytest.mark.spec("V87")
def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ContractViolation, match=r"min_generated_tokens.*at most.* 3, got 4"):
        GeneratorParams(min_generated_tokens=4, max_generated_tokens=3)

    equal = GeneratorParams(min_generated_tokens=3, max_generated_tokens=3)
    unlimited = GeneratorParams(min_generated_tokens=4, max_generated_tokens=0)
    assert (equal.min_generated_tokens, unlimited.min_generated_tokens) == (3, 4)


@pytest.mark.parametrize("value", [*NO_INTEGER, INT32_MAX + 1])
@pytest.mark.spec("V88")
def test_request_options_refuse_a_session_limit_outside_its_range(value: Any) -> None:
    with pytest.raises(ContractViolation, match="max_session_tokens") as refused:
        RequestOptions(max_session_tokens=value)

    assert refused.value.rule_id == "V88"


@pytest.mark.spec("E9", "E10")
def test_options_are_frozen_and_copy_the_ids_they_are_given() -> None:
    ids = [1, 2]
    params = GeneratorParams(eos_token_ids=ids)

    ids.append(3)

    assert params.eos_token_ids == (1, 2)
    for frozen, name in (
        (params, "top_k"),
        (TurnOptions(), "top_k"),
        (RequestOptions(), "max_session_tokens"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, name, 1)


@pytest.mark.parametrize(("name", "value"), [each for each in BAD if each[1] is not None])
@pytest.mark.spec("V87")
def test_a_turn_refuses_a_bad_option_and_nothing_has_changed(name: str, value: Any) -> None:
    engine = fake_engine()
    request = engine.create_request()
    before = engine.snapshot()

    with pytest.raises(ContractViolation, match=name):
        request.begin_turn([1, 2], TurnOptions(**{name: value}))

    assert engine.snapshot() == before
    assert not engine.has_pending_requests()


@st.composite
def _given(draw: st.DrawFn) -> dict[str, Any]:
    options = {
        "do_sample": st.booleans(),
        "temperature": st.floats(0, 4),
        "top_k": st.integers(0, 50),
        "top_p": st.floats(0, 1),
        "repetition_penalty": st.floats(0.5, 2),
        "no_repeat_ngram_size": st.integers(0, 5),
        "min_generated_tokens": st.integers(0, 3),
        "max_generated_tokens": st.integers(3, 9),
        "seed": st.integers(0, INT64_MAX),
        "sample_index": st.integers(0, 9),
        "eos_token_ids": st.lists(st.integers(0, 96)).map(tuple),
        "ignore_eos": st.booleans(),
    }
    assert set(options) == {field.name for field in fields(TurnOptions)}
    chosen = draw(st.sets(st.sampled_from(sorted(options))))
    return {name: draw(options[name]) for name in sorted(chosen)}


@given(_given(), _given())
@pytest.mark.spec("E132")
def test_a_turn_option_wins_over_the_param_and_none_leaves_it(
    of_params: dict[str, Any], of_turn: dict[str, Any]
) -> None:
    params = GeneratorParams(**of_params)

    merged = TurnOptions(**of_turn).over(params)

    for field in fields(GeneratorParams):
        expected = of_turn.get(field.name, getattr(params, field.name))
        assert getattr(merged, field.name) == expected
    assert params == GeneratorParams(**of_params)


def test_an_option_that_turns_something_off_is_no_absent_option() -> None:
    params = GeneratorParams(do_sample=True, temperature=0.5, ignore_eos=True, eos_token_ids=(1,))

    merged = TurnOptions(temperature=0, ignore_eos=False, eos_token_ids=()).over(params)

    assert (merged.temperature, merged.ignore_eos, merged.eos_token_ids) == (0, False, ())


@pytest.mark.parametrize(
    ("params", "greedy"),
    [
        (GeneratorParams(), True),
        (GeneratorParams(do_sample=False, temperature=0.7, top_k=50, top_p=0.9, seed=1), True),
        (GeneratorParams(do_sample=True), False),
        (GeneratorParams(do_sample=True, temperature=0), True),
        (GeneratorParams(do_sample=True, temperature=0.0, top_k=50, top_p=0.1), True),
        (GeneratorParams(do_sample=True, top_k=1), True),
        (GeneratorParams(do_sample=True, top_k=2), False),
        (GeneratorParams(do_sample=True, temperature=1e-6), False),
    ],
)
def test_temperature_zero_wins_over_everything_and_sampling_is_opt_in(
    params: GeneratorParams, *, greedy: bool
) -> None:
    assert params.is_greedy is greedy


@pytest.mark.parametrize(
    ("options", "greedy"),
    [
        (TurnOptions(), False),
        (TurnOptions(temperature=0.0), True),
        (TurnOptions(temperature=0), True),
        (TurnOptions(do_sample=False), True),
        (TurnOptions(top_k=1), True),
        (TurnOptions(do_sample=True, temperature=0.0, top_p=0.5), True),
    ],
)
@pytest.mark.spec("E132")
def test_a_turn_of_a_sampling_request_can_be_greedy(options: TurnOptions, *, greedy: bool) -> None:
    params = GeneratorParams(do_sample=True, temperature=1.5, top_k=9)

    assert options.over(params).is_greedy is greedy


def test_fresh_seeds_are_in_the_range_of_a_seed_and_differ() -> None:
    seeds = {fresh_seed() for _ in range(32)}

    assert len(seeds) == 32
    for seed in seeds:
        assert GeneratorParams(seed=seed).seed == seed
