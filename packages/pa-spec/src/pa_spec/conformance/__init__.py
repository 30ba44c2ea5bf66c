"""Examines any implementation of the operator by the contract's golden vectors and rules."""

from pa_spec.conformance.call import FEATURES, Operator, OperatorCall, features_of
from pa_spec.conformance.declaration import Declaration
from pa_spec.conformance.element import Array, decode, encode, storage_dtype
from pa_spec.conformance.report import CaseResult, CaseStatus, ConformanceReport, Reason
from pa_spec.conformance.run import run

__all__ = [
    "FEATURES",
    "Array",
    "CaseResult",
    "CaseStatus",
    "ConformanceReport",
    "Declaration",
    "Operator",
    "OperatorCall",
    "Reason",
    "decode",
    "encode",
    "features_of",
    "run",
    "storage_dtype",
]
