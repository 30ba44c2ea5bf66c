"""Goal: values of `search` and of EngineConfig's fields are checked, and limits with each other.

Method: write a file, check it as a user does, and compare the whole list of what was found.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from engine_files import LIMITS, check_json, dynamic, found_in
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pa_spec import EngineConfig, InputUnusable
from pa_spec.checker import Findings
from pa_spec.checker.engine_file import check_engine_document
from pa_spec.checker.setting import check_settings


@pytest.mark.spec("V87")
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num_beams", 4, "1"),
        ("batch_size", 0, "1"),
        ("top_p", 1.5, "0 to 1; off unless strictly between"),
        ("top_k", -1, "at least 0; 0 is off"),
        ("temperature", -0.5, "at least 0"),
        ("repetition_penalty", 0, "above 0"),
        ("min_length", -1, "at least 0"),
        ("max_length", -5, "at least 0; 0 is the model's context length"),
        ("no_repeat_ngram_size", 2**31, "at least 0; 0 is off"),
    ],
)
def test_search_key_outside_its_range_breaks_v87(
    tmp_path: Path, name: str, value: float, allowed: str
) -> None:
    assert found_in(check_json(tmp_path, {"search": {name: value}})) == [
        f"search.{name}: {name}: expected {allowed}, got {value} (V87)"
    ]


@pytest.mark.parametrize("value", [-3, 0, 7])
def test_chunk_size_of_zero_or_below_is_unset(tmp_path: Path, value: int) -> None:
    assert found_in(check_json(tmp_path, {"search": {"chunk_size": value}})) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"search": None}, "search: search: expected an object, got null"),
        ({"search": {"top_k": 2.5}}, "search.top_k: top_k: expected an integer, got 2.5"),
        ({"search": {"top_p": "1"}}, 'search.top_p: top_p: expected a finite number, got "1"'),
        (
            {"search": {"do_sample": "yes"}},
            'search.do_sample: do_sample: expected true or false, got "yes"',
        ),
        (
            {"chunk_size": -1},
            "chunk_size: chunk_size: expected an integer from 0 to 2147483647, got -1",
        ),
        (
            {"memory_budget_bytes": 0},
            (
                "memory_budget_bytes: memory_budget_bytes: "
                "expected an integer from 1 to 9223372036854775807, got 0"
            ),
        ),
        (
            {"reserve_turn_limit": 1},
            "reserve_turn_limit: reserve_turn_limit: expected true or false, got 1",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_value_of_another_type_is_named(tmp_path: Path, document: object, expected: str) -> None:
    assert found_in(check_json(tmp_path, document)) == [f"{expected} (engine.wrong_value)"]


def test_unknown_keys_beside_the_objects_are_violations_and_in_search_warnings(
    tmp_path: Path,
) -> None:
    report = check_json(tmp_path, {"search": {"tempreature": 1.0}, "max_batchsize": 4})

    assert [(each.id, each.severity.value, each.actual) for each in report.findings] == [
        ("engine.unknown_search_key", "warning", '"tempreature" (did you mean temperature?)'),
        ("engine.unknown_key", "violation", '"max_batchsize" (did you mean max_batch_size?)'),
    ]


def test_hundreds_of_thousands_of_unknown_keys_are_checked_soon(tmp_path: Path) -> None:
    keys = dict.fromkeys(map(str, range(200_000)), 0)
    started = process_time()

    report = check_json(tmp_path, {"block_size": 17, "engine": {"dynamic_batching": keys}} | keys)

    ids = [each.id for each in report.findings]
    assert ids.count("V74") == ids.count("engine.unknown_key") == 100
    assert ids.count("V29") == 1
    assert process_time() - started < 5  # as many searches for the nearest name take a minute


def test_one_limit_by_its_key_and_by_its_field_must_agree(tmp_path: Path) -> None:
    assert found_in(check_json(tmp_path, dynamic(block_size=32) | {"block_size": 32})) == []
    assert found_in(check_json(tmp_path, dynamic(block_size=32) | {"block_size": 64})) == [
        (
            "block_size: block_size: expected one value, by engine.dynamic_batching.block_size or "
            "by block_size, got 32 and 64 (engine.given_twice)"
        )
    ]


def test_limits_at_odds_with_each_other_are_noted(tmp_path: Path) -> None:
    document = dynamic(max_scheduled_tokens=8) | {"max_batch_size": 12, "chunk_size": 9}
    report = check_json(tmp_path, document)

    assert found_in(report) == [
        (
            "engine.dynamic_batching.max_scheduled_tokens: max_scheduled_tokens: expected at least "
            "max_batch_size = 12, for every resident to decode in every step, got 8 "
            "(engine.budget_below_batch)"
        ),
        (
            "chunk_size: chunk_size: expected at most max_scheduled_tokens = 8, to have an effect, "
            "got 9 (engine.chunk_above_budget)"
        ),
    ]
    assert report.verdict.value == 0
    assert found_in(check_json(tmp_path, document | {"max_batch_size": 8, "chunk_size": 8})) == []


FIELDS = st.dictionaries(
    st.sampled_from([each.name for each in fields(EngineConfig)]),
    st.integers(-2, 40) | st.integers(-(2**64), 2**64) | st.booleans() | st.none() | st.floats(),
)


@hypothesis_settings(deadline=None)
@given(FIELDS)
def test_fields_are_refused_exactly_when_engine_config_refuses_them(values: Any) -> None:
    findings = Findings()

    check_engine_document(values, findings, "")

    refused = False
    try:
        # EngineConfig trusts the annotation of its one flag.
        is_flag = isinstance(values.get("reserve_turn_limit", False), bool)
        refused = EngineConfig(**values) is None or not is_flag
    except InputUnusable:
        refused = True
    assert refused == any(each.severity.value == "violation" for each in findings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*LIMITS, "x"]), inner),
)
KEYS = ("engine", "search", "dynamic_batching", "static_batching", "top_p", *LIMITS)


@hypothesis_settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from(KEYS), st.dictionaries(st.sampled_from(KEYS), JSON) | JSON))
def test_any_values_are_checked_without_an_exception(document: Any) -> None:
    findings = Findings()

    facts = check_engine_document(document, findings, "")
    check_settings(document, findings, "")

    assert all(str(each) for each in findings)
    assert all(isinstance(each, str) for each in facts.values())


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"num_blocks": 4, "block_size": 16, "max_session_tokens": 65},
            [
                (
                    "max_session_tokens: max_session_tokens: expected at most 64, the tokens that "
                    "4 blocks of 16 hold, got 65 (engine.session_above_pool)"
                )
            ],
        ),
        ({"num_blocks": 4, "block_size": 16, "max_session_tokens": 64}, []),
        (
            dynamic(num_blocks=4, block_size=16) | {"search": {"max_length": 65}},
            [
                (
                    "search.max_length: max_length: expected at most 64, the tokens that "
                    "4 blocks of 16 hold, got 65 (engine.session_above_pool)"
                )
            ],
        ),
        ({"block_size": 16, "max_session_tokens": 65}, []),
        ({"num_blocks": 4, "block_size": 16}, []),
    ],
)
def test_sequence_longer_than_the_pool_is_noted(
    tmp_path: Path, document: object, expected: list[str]
) -> None:
    assert found_in(check_json(tmp_path, document)) == expected


@pytest.mark.parametrize(
    ("document", "most"),
    [
        ({"search": {"min_length": 11, "max_length": 10}}, "search.max_length = 10"),
        ({"search": {"min_length": 11}, "max_session_tokens": 10}, "max_session_tokens = 10"),
        ({"search": {"min_length": 10, "max_length": 10}}, ""),
        ({"search": {"min_length": 11, "max_length": 0}}, ""),
        ({"search": {"min_length": 11}}, ""),
    ],
)
def test_minimum_above_the_whole_sequence_is_reported(
    tmp_path: Path, document: object, most: str
) -> None:
    message = (
        f"search.min_length: min_length: expected at most {most}, got 11 (engine.min_above_max)"
    )

    assert found_in(check_json(tmp_path, document)) == ([message] if most else [])


@pytest.mark.parametrize(("value", "shown"), [(-3, "unset"), (0, "unset"), (3, "3")])
def test_chunk_size_is_shown_as_what_it_does(tmp_path: Path, value: int, shown: str) -> None:
    report = check_json(tmp_path, {"search": {"chunk_size": value}})

    assert report.facts["chunk_size"] == f"{shown} (search.chunk_size)"
