"""Goal: the targets of the session `fuzz` work, and what it found stays mended.

Method: each target's seeds and findings, and a few inputs that hypothesis makes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDER = Path(__file__).parent / "fuzz"
TARGETS = sorted(
    each.stem for each in FOLDER.glob("fuzz_*.py") if "def one_input(" in each.read_text("utf-8")
)


def one_input_of(name: str) -> Callable[[bytes], None]:
    target: Callable[[bytes], None] = import_module(name).one_input
    return target


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_what_was_found_keep_every_promise(name: str) -> None:
    seeds = list(import_module(name).seeds())

    assert seeds
    for seed in seeds:
        one_input_of(name)(seed)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_other_inputs_keep_every_promise(name: str, data: bytes) -> None:
    one_input_of(name)(data)


def test_targets_are_found() -> None:
    assert {"fuzz_json_text", "fuzz_engine_file", "fuzz_config", "fuzz_folder"} <= set(TARGETS)
