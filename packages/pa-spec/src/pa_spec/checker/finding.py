"""What a check found, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

from pa_spec.contract.finding_kind import Severity, finding_kinds
from pa_spec.contract.rule import rules
from pa_spec.errors import ContractViolation

MAX_FINDINGS_OF_A_KIND = 100
"""Findings kept for each id; a broken exporter repeats one mistake in every layer."""


class Place(NamedTuple):
    """Where something was found.

    file: a file's path below the checked one, "" = the checked path itself. inside: a node's name
    with its subgraphs, a key of a configuration ("engine.dynamic_batching.block_size"), or a
    tensor's name.
    """

    file: str = ""
    inside: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, self))


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake, doubt or remark.

    id: a rule's ("V31") or a kind's of spec/findings. name: the tensor, attribute, key or file
    that is wrong; expected and actual are already readable text.
    """

    id: str
    severity: Severity
    place: Place
    name: str
    expected: str
    actual: str

    def __str__(self) -> str:
        where = f"{self.place}: " if any(self.place) else ""
        return f"{where}{self.name}: expected {self.expected}, got {self.actual} ({self.id})"


@final
class Findings:
    """Collects findings in the order of their discovery; keeps a bounded number of each id."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._seen: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._kept)

    def add(
        self, finding_id: str, place: Place, name: str, actual: object, /, **values: object
    ) -> None:
        """Report a finding of a kind or a rule; values fill the words of its expected text.

        The value named `case` chooses among several expected texts.
        """
        case = str(values.pop("case", ""))
        if finding_id in rules():
            found = rules()[finding_id].violation(name, str(actual), case, **values)
            self.violation(found, place)
            return
        kind = finding_kinds()[finding_id]
        expected = kind.expected[case].format(**values)
        self._keep(Finding(kind.id, kind.severity, place, name, expected, str(actual)))

    def violation(self, found: ContractViolation, place: Place) -> None:
        """Report a rule that was broken."""
        weight = Severity.VIOLATION
        finding = Finding(found.rule_id, weight, place, found.name, found.expected, found.actual)
        self._keep(finding)

    def take(self, others: Findings, without: Container[str] = ()) -> None:
        """Add what others collected; without: ids that are left out."""
        for finding in others:
            if finding.id not in without:
                self._keep(finding)
        for finding_id, count in others.omitted.items():
            if finding_id not in without:
                self._seen[finding_id] += count

    @property
    def total(self) -> int:
        """How many findings were seen, kept or not."""
        return self._seen.total()

    @property
    def omitted(self) -> dict[str, int]:
        """How many findings of an id were seen beyond those that are kept."""
        most = MAX_FINDINGS_OF_A_KIND
        return {each: count - most for each, count in self._seen.items() if count > most}

    def _keep(self, finding: Finding) -> None:
        self._seen[finding.id] += 1
        if self._seen[finding.id] <= MAX_FINDINGS_OF_A_KIND:
            self._kept.append(finding)
