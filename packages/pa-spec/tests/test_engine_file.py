"""Goal: every key of an engine configuration is understood, or refused by the rule it breaks.

Method: write a file, check it as a user does, and compare the whole list of what was found.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from engine_files import LIMITS, check_json, dynamic, found_in
from pa_spec import EngineConfig, settings
from pa_spec.checker import check_model

DYNAMIC = "engine.dynamic_batching."
KEYS_OF_DYNAMIC = ", ".join(
    sorted(each.removeprefix(DYNAMIC) for each in settings() if each.startswith(DYNAMIC))
)


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
