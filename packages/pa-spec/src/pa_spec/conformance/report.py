"""What came of every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class CaseStatus(Enum):
    """A case that needs what was declared missing is not applicable, and never passed."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class Reason(Enum):
    """What is wrong about a case that failed."""

    CRASHED = "crashed"
    REFUSED = "refused a legal call"
    ACCEPTED = "accepted an illegal call"
    RULE = "refused by another rule"
    CHANGED = "changed something before it refused"
    OUTPUT = "output"
    OUTPUT_QK = "output_qk"
    LEAK = "read slots that hold no token"
    STORED = "stored other keys or values"
    TOUCHED = "wrote to other slots"
    INPUT = "changed an input that is no cache"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: "attention/softcap/float32", what came of it, and why.

    reasons: empty unless it failed. detail: the first difference, or what is missing.
    """

    id: str
    status: CaseStatus
    detail: str = ""
    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        said = "; ".join(each.value for each in self.reasons)
        parts = [f"{self.status.value}: {self.id}", *([said] if said else []), self.detail]
        return " - ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The results of all cases, in order. `str()` lists what did not pass, and why."""

    contract_version: str
    results: tuple[CaseResult, ...]
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing failed and something was examined."""
        found = {each.status for each in self.results}
        return CaseStatus.FAILED not in found and CaseStatus.PASSED in found

    def of(self, status: CaseStatus) -> tuple[CaseResult, ...]:
        """Return the results with that status."""
        return tuple(each for each in self.results if each.status is status)

    def __str__(self) -> str:
        counts = Counter(each.status for each in self.results)
        summary = ", ".join(f"{counts[status]} {status.value}" for status in CaseStatus)
        lines = [
            f"contract {self.contract_version}: {summary}",
            *([self.note] if self.note else []),
        ]
        lines += [str(each) for each in self.of(CaseStatus.FAILED)]
        by_detail: dict[str, list[str]] = {}
        for each in self.of(CaseStatus.NOT_APPLICABLE):
            by_detail.setdefault(each.detail, []).append(each.id)
        for detail, ids in by_detail.items():
            lines.append(f"{CaseStatus.NOT_APPLICABLE.value}, {detail} ({len(ids)}):")
            lines += _wrapped(ids)
        return "\n".join(lines)


def _wrapped(words: Sequence[str], width: int = 100) -> list[str]:
    """Lay words out in indented lines; never breaks a word."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return lines
