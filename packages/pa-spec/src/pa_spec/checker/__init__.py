"""The model checker: `pa-spec check` and the same as a function."""

from pa_spec.checker.capacity import Capacity, SequenceCost, capacity_of, parse_memory
from pa_spec.checker.check import check_model
from pa_spec.checker.finding import Finding, Findings, Place
from pa_spec.checker.graph.schema import register_schemas
from pa_spec.checker.huggingface.config.resolve import resolve_config
from pa_spec.checker.huggingface.rope.frequency import inverse_frequencies
from pa_spec.checker.huggingface.weights.check import expected_tensors
from pa_spec.checker.huggingface.weights.expected_tensor import ExpectedTensor
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
from pa_spec.checker.report_document import report_document, report_json
from pa_spec.checker.report_text import report_text

__all__ = [
    "NO_WINDOW",
    "Capacity",
    "CheckOptions",
    "EosId",
    "ExpectedTensor",
    "Finding",
    "Findings",
    "FixedRow",
    "LayerKind",
    "LayerMeaning",
    "ModelMeaning",
    "Place",
    "Report",
    "RopeMeaning",
    "SequenceCost",
    "TargetKind",
    "Verdict",
    "capacity_of",
    "check_model",
    "expected_tensors",
    "inverse_frequencies",
    "parse_memory",
    "register_schemas",
    "report_document",
    "report_json",
    "report_text",
    "resolve_config",
]
