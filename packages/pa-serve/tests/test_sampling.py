from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_serve.sampling import FIELDS, Sampling, parse_field, read_sampling
from pa_spec import InputUnusable

BAD_VALUES: list[tuple[str, list[object]]] = [
    ("max_new_tokens", [0, -1, 1.5, "3", True, 2**31]),
    ("min_new_tokens", [-1, 2**31]),
    ("temperature", [-0.1, math.nan, math.inf, -math.inf, "hot", 10**400]),
    ("top_k", [-1, 2.0]),
    ("top_p", [0, -0.5, 1.01, math.nan]),
    ("seed", [-1, 2**63]),
    ("repetition_penalty", [0, -1, math.nan, math.inf]),
    ("no_repeat_ngram_size", [-2, False]),
    ("ignore_eos", [1, "yes"]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_VALUES for value in values]
)
def test_a_value_outside_its_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputUnusable, match=name) as refused:
        read_sampling({name: value})

    assert refused.value.allowed


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_new_tokens", "1", 1),
        ("temperature", "0", 0.0),
        ("top_p", "1", 1.0),
        ("top_p", "1e-9", 1e-9),
        ("seed", str(2**63 - 1), 2**63 - 1),
        ("repetition_penalty", "0.5", 0.5),
    ],
)
def test_values_at_the_edge_of_a_range_are_read(name: str, text: str, value: float) -> None:
    assert parse_field(name, text) == value


@pytest.mark.parametrize("text", ["", "nan", "-1", "one", "0x1", "1e400"])
def test_an_option_that_is_no_legal_number_is_refused(text: str) -> None:
    with pytest.raises(InputUnusable, match="temperature"):
        parse_field("temperature", text)


def test_null_says_nothing() -> None:
    assert read_sampling({"temperature": None, "seed": 3}) == Sampling(seed=3)


def test_sampling_is_greedy_until_something_asks_for_chance() -> None:
    assert Sampling().effective_temperature == 0
    assert Sampling(seed=7).effective_temperature == 0
    assert Sampling(top_p=0.9).effective_temperature == 1
    assert Sampling(top_k=5).effective_temperature == 1
    assert Sampling(top_p=0.9, temperature=0).effective_temperature == 0
    assert Sampling(temperature=0.3).effective_temperature == 0.3


def test_fewer_tokens_at_most_than_at_least_is_refused() -> None:
    with pytest.raises(InputUnusable, match="min_new_tokens: 9 is more than max_new_tokens 8"):
        Sampling(min_new_tokens=9, max_new_tokens=8).check_limits()


@given(st.dictionaries(st.sampled_from(["top_k", "seed", "max_new_tokens"]), st.integers(1, 99)))
def test_a_line_wins_over_the_defaults_field_by_field(own: dict[str, int]) -> None:
    defaults = Sampling(top_k=100, seed=200, max_new_tokens=300, temperature=0.5)

    merged = read_sampling(own).over(defaults)

    for name in FIELDS:
        assert getattr(merged, name) == own.get(name, getattr(defaults, name))
