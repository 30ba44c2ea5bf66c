"""The model checker: `pa-spec check` and the same as a function."""

from pa_spec.checker.finding import Finding, Findings, Place
from pa_spec.checker.meaning import (
    NO_WINDOW,
    EosId,
    FixedRow,
    LayerKind,
    LayerMeaning,
    ModelMeaning,
    RopeMeaning,
)
from pa_spec.checker.report import CheckOptions, Report, TargetKind, Verdict

__all__ = [
    "NO_WINDOW",
    "CheckOptions",
    "EosId",
    "Finding",
    "Findings",
    "FixedRow",
    "LayerKind",
    "LayerMeaning",
    "ModelMeaning",
    "Place",
    "Report",
    "RopeMeaning",
    "TargetKind",
    "Verdict",
]
