"""Rules, invariants and checks: what must hold, and what is said when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from pa_spec.contract.data import by_id, names, records, table
from pa_spec.errors import ContractViolation


class Decider(Enum):
    """Who can decide a rule."""

    SPEC = "spec"
    KERNELS = "kernels"
    CACHE = "cache"
    ENGINE = "engine"
    CHECKER = "checker"
    DEVICE = "device"


class RuleStatus(Enum):
    """Whether a rule is checked (spec/rules.toml says what each means)."""

    ACTIVE = "active"
    PENDING = "pending"
    NOT_OURS = "not_ours"
    SUPERSEDED = "superseded"


class CheckScope(Enum):
    """Where a check is made: before every publish, in a full scan, or in both."""

    STEP = "step"
    ALL = "all"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation rule, V1 to V106.

    expected: what an error says is allowed, by case; "" is the case of a rule that has only one.
    feature: what will check a pending rule. reason: why a rule is not ours, or superseded.
    decision: the decision that settled or narrowed it. remainder: what of an active rule is decided
    elsewhere. checks: the checks that report it in place of an error of its own.
    """

    id: str
    area: str
    stage: str
    names: tuple[str, ...]
    condition: str
    expected: Mapping[str, str]
    decided_by: Decider
    status: RuleStatus
    feature: str = ""
    reason: str = ""
    decision: str = ""
    remainder: str = ""
    checks: tuple[str, ...] = ()

    def violation(
        self, name: str, actual: str, case: str = "", /, **values: object
    ) -> ContractViolation:
        """Build the error of this rule; values fill the words in {} of the expected text."""
        expected = self.expected[case].format(**values)
        return ContractViolation(self.id, name, expected, actual)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant or state rule of the engine, E1 to E135."""

    id: str
    group: str
    statement: str
    status: RuleStatus
    feature: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check that `check_step` or `check_all` makes; cites names the invariants it defends."""

    id: str
    cites: tuple[str, ...]
    scope: CheckScope
    message: str
    owner: str


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by its id, in order."""
    rows = (row | {"expected": _by_case(row["expected"])} for row in table("rules.toml")["rule"])
    return by_id(records(Rule, tuple(rows)))


@cache
def invariants() -> Mapping[str, Invariant]:
    """Return every invariant by its id, in order."""
    return by_id(records(Invariant, table("invariants.toml")["invariant"]))


@cache
def checks() -> Mapping[str, Check]:
    """Return every check of every owner (one file of spec/checks each) by its id."""
    rows = [
        row | {"owner": owner}
        for owner in names("checks", ".toml")
        for row in table(f"checks/{owner}.toml")["check"]
    ]
    return by_id(records(Check, rows))


def _by_case(expected: str | dict[str, str]) -> dict[str, str]:
    return {"": expected} if isinstance(expected, str) else expected
