from __future__ import annotations

from typing import Any

import pytest
from pa_spec import ContractViolation, EngineConfig, InputUnusable, StepLimits


def test_defaults_are_valid() -> None:
    assert EngineConfig() == EngineConfig(block_size=16, max_batch_size=16)


@pytest.mark.spec("V29")
@pytest.mark.parametrize("size", [0, -16, 8, 17, 24, 48, 2.0, "16", True])
def test_block_size_that_is_no_power_of_two_from_16_is_refused(size: Any) -> None:
    with pytest.raises(InputUnusable, match=r"block_size.*power of two, at least 16 \(V29\)"):
        EngineConfig(block_size=size)


@pytest.mark.spec("V72")
@pytest.mark.parametrize("name", ["num_blocks", "max_batch_size", "max_scheduled_tokens"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 1.5, "4", True])
def test_limit_outside_its_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputUnusable, match=rf"{name}.*1 to 2147483647 \(V72\)"):
        EngineConfig(**{name: value})


@pytest.mark.parametrize("name", ["chunk_size", "max_session_tokens"])
def test_limits_that_may_be_off_accept_zero_and_nothing_below(name: str) -> None:
    EngineConfig(**{name: 0})  # type: ignore[arg-type]

    with pytest.raises(InputUnusable, match=name):
        EngineConfig(**{name: -1})  # type: ignore[arg-type]


def test_memory_budget_may_pass_the_int32_range() -> None:
    assert EngineConfig(memory_budget_bytes=2**40).memory_budget_bytes == 2**40


@pytest.mark.rule("V72")
@pytest.mark.parametrize(
    ("wrong", "legal", "message"),
    [
        ((0, 1, 0), (1, 1, 0), "max_batch_size: expected an integer from 1 to 2147483647, got 0"),
        (
            (1, 2**31, 0),
            (1, 2**31 - 1, 0),
            "max_scheduled_tokens: expected an integer from 1 to 2147483647, got 2147483648",
        ),
        ((1, 1, -1), (1, 1, 0), "chunk_tokens: expected an integer from 0 to 2147483647, got -1"),
    ],
)
def test_limit_of_steps_that_is_no_count_is_refused(
    wrong: tuple[int, int, int], legal: tuple[int, int, int], message: str
) -> None:
    StepLimits(*legal)

    with pytest.raises(ContractViolation) as refused:
        StepLimits(*wrong)

    assert str(refused.value) == f"{message} (V72)"
