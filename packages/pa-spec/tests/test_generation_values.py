"""Values of generation_config.json: those that no request can be made with are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pa_spec.checker.check import check_model
from safetensors_writer import write_folder

INTEGER = "an integer from 0 to 2147483647"


def found_with(tmp_path: Path, **values: object) -> list[str]:
    folder = write_folder(tmp_path / "m")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2} | values))
    return [str(each) for each in check_model(folder).findings if each.id != "file.not_finite"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("temperature", -1, "a number from 0, got -1"),
        ("temperature", "1", 'a number from 0, got "1"'),
        ("temperature", True, "a number from 0, got true"),
        ("temperature", float("nan"), "a number from 0, got nan"),
        ("temperature", float("inf"), "a number from 0, got inf"),
        ("temperature", 2**300, "a number from 0, got an integer of 301 bits"),
        ("top_p", 7, "a number from 0 to 1, got 7"),
        ("top_p", -0.5, "a number from 0 to 1, got -0.5"),
        ("top_k", -1, f"{INTEGER}, got -1"),
        ("top_k", 2.5, f"{INTEGER}, got 2.5"),
        ("top_k", 2**31, f"{INTEGER}, got 2147483648"),
        ("repetition_penalty", 0, "a number above 0, got 0"),
        ("repetition_penalty", [], "a number above 0, got a list of 0"),
        ("do_sample", 1, "true or false, got 1"),
        ("max_new_tokens", "x", 'an integer from 1 to 2147483647, got "x"'),
        ("max_new_tokens", 0, "an integer from 1 to 2147483647, got 0"),
        ("max_length", -1, f"{INTEGER}, got -1"),
        ("min_length", None, ""),
        ("min_new_tokens", -1, f"{INTEGER}, got -1"),
        ("no_repeat_ngram_size", -1, f"{INTEGER}, got -1"),
    ],
)
def test_value_that_no_request_can_have_is_reported(
    tmp_path: Path, key: str, value: object, expected: str
) -> None:
    message = f"generation_config.json: {key}: {key}: expected {expected} (generation.wrong_value)"

    assert found_with(tmp_path, **{key: value}) == ([message] if expected else [])


@pytest.mark.parametrize(
    "values",
    [
        {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95},
        {"temperature": 0, "top_k": 0, "top_p": 0},
        {"temperature": 1e300, "top_p": 1, "repetition_penalty": 1.05},
        {"max_new_tokens": 2048, "max_length": 20, "min_length": 0, "temperature": None},
        {"transformers_version": "5.0", "typical_p": "whatever nobody reads"},
    ],
)
def test_values_of_sound_models_are_not_reported(tmp_path: Path, values: dict[str, object]) -> None:
    assert found_with(tmp_path, **values) == []
