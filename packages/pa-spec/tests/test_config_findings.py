"""What is wrong in a config.json is reported once, by its key, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from config_cases import SMALL, meaning_of, resolved, small, without
from pa_spec.checker.huggingface.config.family import families, nested_models
from pa_spec.contract.finding_kind import Severity, finding_kinds

MESSAGES: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("config_messages.json").read_text("utf-8")
)
"""For each mistake: keys that differ from config_cases.SMALL, and the one message."""


@pytest.mark.parametrize("name", MESSAGES)
def test_one_mistake_is_one_finding_with_its_place_and_what_is_allowed(name: str) -> None:
    changes = dict(MESSAGES[name]["config"])
    config = without({**SMALL, **changes}, "(without)", *changes.get("(without)", ()))

    meaning, findings = resolved(config)

    message = MESSAGES[name]["message"].format(count=known_count())
    assert [str(each) for each in findings] == [message]
    is_heavy = findings[0].severity in (Severity.VIOLATION, Severity.UNREADABLE)
    assert (meaning is None) == is_heavy


def known_count() -> int:
    """Return how many model types are known."""
    return len(families()) + len(nested_models())


def test_every_kind_of_finding_of_a_configuration_has_an_example() -> None:
    shown = {each["message"].rpartition("(")[2].rstrip(")") for each in MESSAGES.values()}

    assert {each.id for each in finding_kinds().values() if each.area == "config"} <= shown


@pytest.mark.spec("V2")
@pytest.mark.parametrize("kv_heads", [3, 8])
def test_kv_heads_that_do_not_divide_the_heads_break_v2(kv_heads: int) -> None:
    meaning, findings = resolved(small(num_key_value_heads=kv_heads))

    assert meaning is None
    assert [str(each) for each in findings] == [
        (
            "config.json: num_key_value_heads: expected a positive divisor of num_heads=4, "
            f"got {kv_heads} (V2)"
        )
    ]
    meaning_of(small(num_key_value_heads=4))


@pytest.mark.spec("V10")
def test_head_size_that_8_does_not_divide_breaks_v10() -> None:
    meaning, findings = resolved(small(head_dim=12))

    assert meaning is None
    assert [str(each) for each in findings] == [
        "config.json: head_dim: expected a head size divisible by 8, got 12 (V10)"
    ]
    assert meaning_of(small(head_dim=16)).layers[0].head_size == 16


def test_independent_mistakes_are_all_reported() -> None:
    config = small(num_hidden_layers="4", vocab_size=-1, torch_dtype="float17")

    meaning, findings = resolved(config)

    assert meaning is None
    assert {(each.id, each.name) for each in findings} == {
        ("config.not_a_number", "num_hidden_layers"),
        ("config.out_of_range", "vocab_size"),
        ("config.unknown_value", "torch_dtype"),
    }


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "cohere", "granite", "seed_oss"])
def test_a_plain_configuration_has_no_finding(model_type: str) -> None:
    head_dim = {"head_dim": 16} if model_type == "seed_oss" else {}

    meaning = meaning_of(small(model_type, **head_dim))

    assert meaning.family == model_type
    assert len(meaning.layers) == 4
