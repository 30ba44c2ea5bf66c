"""Goal: each rule about keys of `engine` is said in its words; the nearest legal value passes."""

from __future__ import annotations

from typing import Any

import pytest
from pa_spec.checker.finding import Findings
from pa_spec.checker.setting import check_settings


def found_in(document: dict[str, Any]) -> list[str]:
    findings = Findings()
    check_settings(document, findings, "")
    return [
        f"{each.name}: expected {each.expected}, got {each.actual} ({each.id})" for each in findings
    ]


def dynamic(**keys: Any) -> dict[str, Any]:
    return {"engine": {"dynamic_batching": keys}}


CASES = [
    pytest.param(
        dynamic(num_blocks=0),
        dynamic(num_blocks=1),
        "num_blocks: expected an integer from 1 to 2147483647, got 0 (V72)",
        marks=pytest.mark.rule("V72"),
    ),
    pytest.param(
        dynamic(max_batch_size=2**31),
        dynamic(max_batch_size=2**31 - 1, max_scheduled_tokens=2**31 - 1),
        "max_batch_size: expected an integer from 1 to 2147483647, got 2147483648 (V72)",
        marks=pytest.mark.rule("V72"),
    ),
    pytest.param(
        dynamic(block_size=24),
        dynamic(block_size=16),
        "block_size: expected a block size that is a power of two, at least 16, got 24 (V29)",
        marks=pytest.mark.rule("V29"),
    ),
    pytest.param(
        dynamic(gpu_utilization_factor=0),
        dynamic(gpu_utilization_factor=1e-9),
        "gpu_utilization_factor: expected a number above 0, at most 1, got 0 (V73)",
        marks=pytest.mark.rule("V73"),
    ),
    pytest.param(
        dynamic(gpu_utilization_factor=1.5),
        dynamic(gpu_utilization_factor=1),
        "gpu_utilization_factor: expected a number above 0, at most 1, got 1.5 (V73)",
        marks=pytest.mark.rule("V73"),
    ),
    pytest.param(
        {"engine": {"speed": {}}},
        {"engine": {"static_batching": {}}},
        'speed: expected one of dynamic_batching, static_batching, got "speed" (V74)',
        marks=pytest.mark.rule("V74"),
    ),
    pytest.param(
        {"engine": []},
        {"engine": {}},
        "engine: expected an object, got a list of 0 (V74)",
        marks=pytest.mark.rule("V74"),
    ),
    pytest.param(
        dynamic(prefix_caching=1),
        dynamic(prefix_caching=True),
        "prefix_caching: expected true or false, got 1 (V74)",
        marks=pytest.mark.rule("V74"),
    ),
    pytest.param(
        {"engine": {"dynamic_batching": {}, "static_batching": {}}},
        {"engine": {"dynamic_batching": {}}},
        "engine: expected one of dynamic_batching and static_batching, got both of them (V75)",
        marks=pytest.mark.rule("V75"),
    ),
]


@pytest.mark.parametrize(("wrong", "legal", "message"), CASES)
def test_key_of_the_engine_is_refused_in_the_words_of_its_rule(
    wrong: dict[str, Any], legal: dict[str, Any], message: str
) -> None:
    assert found_in(wrong) == [message]
    assert found_in(legal) == []
