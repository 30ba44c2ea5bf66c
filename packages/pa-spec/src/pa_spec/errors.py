"""The one tree of errors that every package raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class PagedAttentionError(Exception):
    """Root of every error that these packages raise on purpose."""


class ContractViolation(PagedAttentionError):
    """The caller broke a rule of the contract; nothing has changed.

    rule_id names the rule in spec/ ("V34"), name the tensor, attribute or argument; expected and
    actual are already readable text.
    """

    def __init__(self, rule_id: str, name: str, expected: str, actual: str) -> None:
        super().__init__(rule_id, name, expected, actual)
        self.rule_id = rule_id
        self.name = name
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        return f"{self.name}: expected {self.expected}, got {self.actual} ({self.rule_id})"


class InputUnusable(PagedAttentionError):
    """A file, a checkpoint or a request's data cannot be used; nothing has changed.

    name says what it is, problem what was found, allowed what would do.
    """

    def __init__(self, name: str, problem: str, allowed: str = "") -> None:
        super().__init__(name, problem, allowed)
        self.name = name
        self.problem = problem
        self.allowed = allowed

    def __str__(self) -> str:
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{self.name}: {self.problem}{allowed}"


class StepAborted(PagedAttentionError):
    """Raised by an executor whose step left nothing behind: `run` reports RETRYABLE (E83)."""


class ExecutionCapacityExceeded(StepAborted):
    """The device's memory did not suffice for this step: `run` reports CAPACITY_BLOCKED (E83)."""


class EngineFailed(PagedAttentionError):
    """The engine stopped for good; stored, and raised again by every later call (E88)."""


class InvariantViolation(EngineFailed):
    """An invariant did not hold: our fault. Carries the id of every check that failed."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(violations)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(str(each) for each in self.violations)


class Violation(NamedTuple):
    """One failed check: its id in spec/checks and what was found."""

    check_id: str
    found: str

    def __str__(self) -> str:
        return f"{self.check_id}: {self.found}"
