from __future__ import annotations

import pickle

import pytest
from pa_spec import (
    ContractViolation,
    EngineFailed,
    ExecutionCapacityExceeded,
    InputUnusable,
    InvariantViolation,
    PagedAttentionError,
    StepAborted,
    Violation,
)


def test_one_root_catches_everything_that_is_raised_on_purpose() -> None:
    for error in (ContractViolation, InputUnusable, StepAborted, EngineFailed):
        assert issubclass(error, PagedAttentionError)
    assert issubclass(ExecutionCapacityExceeded, StepAborted)
    assert issubclass(InvariantViolation, EngineFailed)


def test_contract_violation_is_built_from_its_parts() -> None:
    error = ContractViolation("V34", "block_table", "[B=3, M]", "[2, 8]")

    assert str(error) == "block_table: expected [B=3, M], got [2, 8] (V34)"
    assert (error.rule_id, error.name) == ("V34", "block_table")
    assert (error.expected, error.actual) == ("[B=3, M]", "[2, 8]")


@pytest.mark.parametrize(
    ("allowed", "message"),
    [("", "x.json: is empty"), ("an object", "x.json: is empty; allowed: an object")],
)
def test_input_unusable_names_the_thing_and_what_would_do(allowed: str, message: str) -> None:
    error = InputUnusable("x.json", "is empty", allowed)

    assert str(error) == message
    assert (error.name, error.problem, error.allowed) == ("x.json", "is empty", allowed)


def test_invariant_violation_carries_every_failed_check() -> None:
    found = [Violation("pool.conservation", "1 is not 2"), Violation("table.range", "9")]

    error = InvariantViolation(found)

    assert error.violations == tuple(found)
    assert str(error) == "pool.conservation: 1 is not 2; table.range: 9"


def test_errors_survive_a_process_boundary() -> None:
    errors: list[PagedAttentionError] = [
        ContractViolation("V34", "block_table", "[B=3, M]", "[2, 8]"),
        InputUnusable("x.json", "is empty", "an object"),
        InvariantViolation([Violation("table.range", "9")]),
    ]

    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert vars(copy) == vars(error)
