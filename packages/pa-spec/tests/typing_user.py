"""Must type-check under mypy --strict: what a user of pa_spec writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_type

import numpy as np
from pa_spec import (
    Admission,
    CallSignature,
    Candidates,
    ContractViolation,
    Decoder,
    DecoderConfig,
    DecoderState,
    FailureCell,
    FaultKind,
    Outcome,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    Phase,
    ResidentView,
    Rule,
    SchedulerPolicy,
    StateManifest,
    StepId,
    StepInputs,
    StepLimits,
    StepObserver,
    StepPlan,
    TensorSignature,
    WaitingView,
    check_contract_version,
    failure_table,
    rules,
    validate,
)
from pa_spec.checker import (
    CheckOptions,
    Finding,
    ModelMeaning,
    Report,
    Verdict,
    check_model,
    report_json,
    report_text,
)
from pa_spec.conformance import (
    Array,
    CaseResult,
    CaseStatus,
    Declaration,
    OperatorCall,
    run,
)
from pa_spec.testing import example_call


class Printing:
    """An observer of one's own."""

    def phase(self, phase: Phase, step_id: StepId) -> None:
        print(step_id, phase.value)


class LastFirst:
    """A policy of one's own that never runs anything."""

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        none = np.zeros(0, np.int64)
        return Candidates(
            resident=residents.resident[:0],
            request=waiting.request[:0],
            committed_tokens=none,
            sequence_tokens=none,
            limit_tokens=none,
            is_prefill=np.zeros(0, np.bool_),
            free_resident=waiting.free_resident,
        )

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        raise RuntimeError(f"{len(candidates.request)} rows, {admission}, {limits}")


class Silent:
    """A decoder of one's own over plain arrays."""

    manifest = StateManifest(())
    config = DecoderConfig(vocab_size=2, context_length=8)

    def bind(self, state: DecoderState[np.ndarray]) -> None:
        self.state = state

    def forward(self, inputs: StepInputs[np.ndarray]) -> np.ndarray:
        return np.zeros((len(inputs.logits_rows), 2))


def use(policy: SchedulerPolicy, observer: StepObserver, decoder: Decoder[np.ndarray]) -> None:
    """Accept what fits the protocols."""
    observer.phase(Phase.PLAN, StepId(1))
    print(policy, decoder.config.vocab_size)


use(LastFirst(), Printing(), Silent())
check_contract_version("mine", "1.0")
call = example_call("separate", {"block_table": {"shape": [3, 4]}})
assert_type(call, CallSignature)
assert_type(call.inputs, PagedAttentionInputs[TensorSignature])
assert_type(call.inputs.value_cache, TensorSignature | None)
assert_type(validate(call), tuple[ContractViolation, ...])
assert_type(rules(), Mapping[str, Rule])
cell = failure_table()[Phase.RESERVE, FaultKind.ABORT]
assert_type(cell, FailureCell)
assert_type(cell.outcome, Outcome | None)
names: Sequence[str] = rules()["V12"].names


def my_operator(call: OperatorCall) -> PagedAttentionOutputs[Array]:
    tokens, width = call.inputs.query.shape
    assert_type(call.attributes.num_heads, int)
    return PagedAttentionOutputs(np.zeros((tokens, width), np.float32))


def examine() -> str:
    report = run(my_operator, Declaration(lacks=frozenset({"latent"}), checks_values=False))
    assert_type(report.passed, bool)
    assert_type(report.of(CaseStatus.FAILED), tuple[CaseResult, ...])
    return str(report)


def checked(path: str) -> int:
    report = check_model(path, CheckOptions(is_strict=True))
    assert_type(report, Report)
    assert_type(report.findings, tuple[Finding, ...])
    assert_type(report.meaning, ModelMeaning | None)
    assert_type(report.verdict, Verdict)
    print(report_text(report), report_json(report))
    return report.verdict.value
