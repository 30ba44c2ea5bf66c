"""The result of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pa_spec.checker.capacity import Capacity
from pa_spec.checker.finding import Finding
from pa_spec.checker.meaning import ModelMeaning
from pa_spec.contract.finding_kind import Severity


class TargetKind(Enum):
    """What a checked path turned out to be."""

    ONNX_FILE = "onnx_file"
    EXPORTED_FOLDER = "exported_folder"
    HUGGINGFACE_FOLDER = "huggingface_folder"
    ENGINE_CONFIGURATION = "engine_configuration"
    UNKNOWN = "unknown"


class Verdict(Enum):
    """What a check comes to; the value is the command's exit status."""

    CONFORMS = 0
    VIOLATIONS = 1
    UNREADABLE = 2


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check.

    is_strict: warnings count as violations. memory_bytes and length_tokens: say how many sequences
    of that length fit in that memory; both or neither. reference_config: a config.json, or a
    folder with one, that an exported model is compared with; None = the one beside it, if any.
    """

    is_strict: bool = False
    memory_bytes: int | None = None
    length_tokens: int | None = None
    reference_config: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a check found.

    findings: in the order of discovery. omitted: how many more there were of an id. facts: what
    was looked at, in words ("nodes": "364"). meaning: what a model's configuration resolves to,
    None where there is none or it could not be resolved. capacity: how many sequences fit, where
    the options ask for it and meaning is known.
    """

    path: str
    kind: TargetKind
    is_strict: bool
    findings: tuple[Finding, ...] = ()
    omitted: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    meaning: ModelMeaning | None = None
    capacity: Capacity | None = None

    @property
    def verdict(self) -> Verdict:
        """Unreadable outweighs violations; a warning is a violation when the check is strict."""
        weights = {finding.severity for finding in self.findings}
        if Severity.UNREADABLE in weights:
            return Verdict.UNREADABLE
        broken = {Severity.VIOLATION, Severity.WARNING} if self.is_strict else {Severity.VIOLATION}
        return Verdict.VIOLATIONS if weights & broken else Verdict.CONFORMS
