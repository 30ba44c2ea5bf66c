"""What the model checker reports beside the rules: kinds of findings, as spec/findings has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from pa_spec.contract.data import by_id, names, records, table


class Severity(Enum):
    """How much a finding weighs.

    UNREADABLE: something could not be read, so it could not be checked. VIOLATION: it will fail,
    or give wrong text. WARNING: it may; `--strict` counts it as a violation. NOTE: worth knowing.
    """

    UNREADABLE = "unreadable"
    VIOLATION = "violation"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One kind of finding: its id ("graph.cache_not_aliased"), weight and words.

    expected: what is allowed, by case; "" is the case of a kind that has only one. Words in {} are
    filled from what was checked. area: the file of spec/findings that defines it.
    """

    id: str
    area: str
    severity: Severity
    condition: str
    expected: Mapping[str, str]


@cache
def finding_kinds() -> Mapping[str, FindingKind]:
    """Return every kind of finding of every area (one file of spec/findings each) by its id."""
    rows = [
        row | {"area": area, "expected": _by_case(row["expected"])}
        for area in names("findings", ".toml")
        for row in table(f"findings/{area}.toml")["finding"]
    ]
    return by_id(records(FindingKind, rows))


def _by_case(expected: str | dict[str, str]) -> dict[str, str]:
    return {"": expected} if isinstance(expected, str) else expected
