"""Goal: every key of an engine configuration is understood, or refused by the rule it breaks.

Method: write a file, check it as a user does, and compare the whole list of what was found.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import EngineConfig, InputUnusable, Report, TargetKind, check_model, settings
from pa_spec.checker import Findings
from pa_spec.checker.engine_file import check_engine_document
from pa_spec.checker.setting import check_settings

LIMITS = ("block_size", "num_blocks", "max_batch_size", "max_scheduled_tokens")
DYNAMIC = "engine.dynamic_batching."
KEYS_OF_DYNAMIC = ", ".join(
    sorted(each.removeprefix(DYNAMIC) for each in settings() if each.startswith(DYNAMIC))
)


def check_json(tmp_path: Path, document: object) -> Report:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(document))
    report = check_model(path)
    assert report.kind is TargetKind.ENGINE_CONFIGURATION
    return report


def found_in(report: Report) -> list[str]:
    return [str(each) for each in report.findings]


def dynamic(**values: object) -> dict[str, Any]:
    return {"engine": {"dynamic_batching": values}}


def test_full_configuration_is_clean_and_every_limit_is_explained(tmp_path: Path) -> None:
    batching = {"block_size": 32, "max_batch_size": 100, "gpu_utilization_factor": 0.6}
    search = {"max_length": 8192, "top_p": 1.0, "num_beams": 1, "early_stopping": True}
    report = check_json(tmp_path, dynamic(**batching) | {"search": search})

    assert found_in(report) == []
    assert dict(report.facts) == {
        "batching": "dynamic",
        "block_size": "32 (engine.dynamic_batching.block_size)",
        "num_blocks": "unset",
        "max_batch_size": "100 (engine.dynamic_batching.max_batch_size)",
        "max_scheduled_tokens": "2048 (default)",
        "chunk_size": "unset",
        "max_session_tokens": "8192 (search.max_length)",
        "memory_budget_bytes": "unset",
        "reserve_turn_limit": "false (default)",
        "engine.dynamic_batching.gpu_utilization_factor": "0.6",
        "engine.dynamic_batching.prefix_caching": "true (default)",
        "search.min_length": "0 (default)",
        "search.do_sample": "false (default)",
        "search.top_k": "50 (default)",
        "search.top_p": "1.0",
        "search.temperature": "1.0 (default)",
        "search.repetition_penalty": "1.0 (default)",
        "search.no_repeat_ngram_size": "0 (default)",
        "search.random_seed": "-1 (default)",
        "search.batch_size": "1 (default)",
        "search.num_beams": "1",
    }


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    path.write_text("[engine.dynamic_batching]\nblock_size = 32\n[search]\nmax_length = 100\n")

    from_toml = check_model(path)

    from_json = check_json(tmp_path, dynamic(block_size=32) | {"search": {"max_length": 100}})
    assert (from_toml.facts, from_toml.findings) == (from_json.facts, from_json.findings)


def test_fields_of_engine_config_have_its_own_defaults(tmp_path: Path) -> None:
    report = check_json(tmp_path, {"num_blocks": 64, "memory_budget_bytes": 2**40})

    assert found_in(report) == []
    assert report.facts["block_size"] == "16 (default)"
    assert report.facts["num_blocks"] == "64"
    assert set(report.facts) == {each.name for each in fields(EngineConfig)}


def test_file_without_limits_has_the_defaults_of_files(tmp_path: Path) -> None:
    assert check_json(tmp_path, dynamic()).facts["block_size"] == "256 (default)"


@pytest.mark.spec("V72")
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        (2**31, "2147483648"),
        (16.5, "16.5"),
        ("16", '"16"'),
        (True, "true"),
        (None, "null"),
        ([16], "a list of 1"),
        ({}, "an object of 0 keys"),
        (10**400, "an integer of 1329 bits"),
    ],
    ids=str,
)
def test_limit_that_is_no_positive_int32_breaks_v72(
    tmp_path: Path, name: str, value: object, shown: str
) -> None:
    text = f"expected an integer from 1 to 2147483647, got {shown} (V72)"
    key = f"engine.dynamic_batching.{name}"

    assert found_in(check_json(tmp_path, dynamic(**{name: value}))) == [f"{key}: {name}: {text}"]
    if value is None and name == "num_blocks":
        assert found_in(check_json(tmp_path, {name: value})) == []  # as many as memory holds
    else:
        assert found_in(check_json(tmp_path, {name: value})) == [f"{name}: {name}: {text}"]


@pytest.mark.spec("V72")
@pytest.mark.parametrize("value", [16, 2**30, 16.0, 1e3])
def test_limit_is_any_positive_int32_however_json_writes_it(tmp_path: Path, value: float) -> None:
    assert found_in(check_json(tmp_path, dynamic(num_blocks=value))) == []


@pytest.mark.spec("V29")
@pytest.mark.parametrize("size", [1, 8, 15, 17, 24, 48, 2**31 - 1])
def test_block_size_that_is_no_power_of_two_from_16_breaks_v29(tmp_path: Path, size: int) -> None:
    text = f"expected a block size that is a power of two, at least 16, got {size} (V29)"
    key = "engine.dynamic_batching.block_size"

    assert found_in(check_json(tmp_path, dynamic(block_size=size))) == [
        f"{key}: block_size: {text}"
    ]
    assert found_in(check_json(tmp_path, {"block_size": size})) == [
        f"block_size: block_size: {text}"
    ]
    assert found_in(check_json(tmp_path, dynamic(block_size=256))) == []


@pytest.mark.spec("V73")
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0", "0"),
        ("1.5", "1.5"),
        ("-1", "-1"),
        ('"0.6"', '"0.6"'),
        ("nan", "nan"),
        ("true", "true"),
    ],
)
def test_share_of_memory_outside_0_to_1_breaks_v73(
    tmp_path: Path, written: str, shown: str
) -> None:
    path = tmp_path / "engine.toml"
    path.write_text(f"engine.dynamic_batching.gpu_utilization_factor = {written}")

    assert found_in(check_model(path)) == [
        (
            "engine.dynamic_batching.gpu_utilization_factor: gpu_utilization_factor: "
            f"expected a number above 0, at most 1, got {shown} (V73)"
        )
    ]
    for legal in ("0.6", "1", "1e-9"):
        path.write_text(f"engine.dynamic_batching.gpu_utilization_factor = {legal}")
        assert found_in(check_model(path)) == []


@pytest.mark.spec("V74")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            dynamic(blok_size=16),
            (
                "engine.dynamic_batching.blok_size: blok_size: expected one of "
                f'{KEYS_OF_DYNAMIC}, got "blok_size" (did you mean block_size?) (V74)'
            ),
        ),
        (
            {"engine": {"dynamic": {}}},
            (
                "engine.dynamic: dynamic: expected one of dynamic_batching, static_batching, "
                'got "dynamic" (did you mean dynamic_batching?) (V74)'
            ),
        ),
        (
            {"engine": {"static_batching": {"block_size": 16}}},
            (
                "engine.static_batching.block_size: block_size: expected one of max_batch_size, "
                'got "block_size" (V74)'
            ),
        ),
        ({"engine": []}, "engine: engine: expected an object, got a list of 0 (V74)"),
        (
            {"engine": {"dynamic_batching": None}},
            "engine.dynamic_batching: dynamic_batching: expected an object, got null (V74)",
        ),
        (
            dynamic(prefix_caching=1),
            (
                "engine.dynamic_batching.prefix_caching: prefix_caching: "
                "expected true or false, got 1 (V74)"
            ),
        ),
    ],
    ids=["misspelled", "object", "static", "list", "null", "flag"],
)
def test_unknown_key_or_type_below_engine_breaks_v74(
    tmp_path: Path, document: object, expected: str
) -> None:
    assert found_in(check_json(tmp_path, document)) == [expected]


@pytest.mark.spec("V74")
def test_every_key_of_the_contract_is_known(tmp_path: Path) -> None:
    values = {"int": 1, "float": 1.0, "bool": True}
    engine: dict[str, Any] = {"dynamic_batching": {}}
    search: dict[str, Any] = {}
    for key, row in settings().items():
        *path, name = key.split(".")
        if row.type != "object" and path[-1] != "static_batching":
            (search if path == ["search"] else engine[path[-1]])[name] = values[row.type]
    engine["dynamic_batching"]["block_size"] = 16

    assert found_in(check_json(tmp_path, {"engine": engine, "search": search})) == []
    assert len(engine["dynamic_batching"]) + len(search) == len(settings()) - 2


@pytest.mark.spec("V75")
def test_both_paths_break_v75(tmp_path: Path) -> None:
    both = {"engine": {"dynamic_batching": {}, "static_batching": {"max_batch_size": 4}}}

    assert found_in(check_json(tmp_path, both)) == [
        (
            "engine: engine: expected one of dynamic_batching and static_batching, "
            "got both of them (V75)"
        )
    ]
    del both["engine"]["dynamic_batching"]
    assert found_in(check_json(tmp_path, both)) == []


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


@given(st.dictionaries(st.sampled_from(KEYS), st.dictionaries(st.sampled_from(KEYS), JSON) | JSON))
def test_any_values_are_checked_without_an_exception(document: Any) -> None:
    findings = Findings()

    facts = check_engine_document(document, findings, "")
    check_settings(document, findings, "")

    assert all(str(each) for each in findings)
    assert all(isinstance(each, str) for each in facts.values())
