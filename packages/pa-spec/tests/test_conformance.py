"""Goal: the examination says what was examined, what was not, and why something failed.

Method: operators that refuse, answer or lack something in their own way.
"""

from __future__ import annotations

import re
import subprocess
import sys

import broken_prologue
import numpy as np
import pytest
from naive_operator import NaiveOperator
from pa_spec import ContractViolation, ElementType, InputUnusable, PagedAttentionOutputs
from pa_spec.conformance import (
    Array,
    CaseStatus,
    ConformanceReport,
    Declaration,
    OperatorCall,
    Reason,
    run,
)

FLOAT32_ONLY = Declaration(element_types=frozenset({ElementType.FLOAT32}))


def failures(report: ConformanceReport) -> dict[str, set[Reason]]:
    found: dict[str, set[Reason]] = {}
    for result in report.of(CaseStatus.FAILED):
        found.setdefault(result.id.split("/")[1], set()).update(result.reasons)
    return found


class Foreign(NaiveOperator):
    """Says no in its own way."""

    def __init__(self, refusal: type[Exception]) -> None:
        self.refusal = refusal

    def check(self, call: OperatorCall) -> None:
        try:
            super().check(call)
        except ContractViolation as violation:
            raise self.refusal("INVALID_ARGUMENT") from violation


def test_a_refusal_without_a_rule_counts_where_it_is_declared_and_the_report_says_so() -> None:
    declaration = Declaration(refusals=(ValueError,), names_rules=False)

    report = run(Foreign(ValueError), declaration)

    assert report.passed
    assert "refusals name no rules: only that they happen is compared" in str(report)
    refused = [each for each in report.results if each.id == "rule/packed_width"]
    assert [each.detail for each in refused] == ["refused; its rule is not compared"]


def test_a_refusal_that_is_not_declared_is_a_crash() -> None:
    found = failures(run(Foreign(ZeroDivisionError), FLOAT32_ONLY))

    assert found["packed_width"] == {Reason.CRASHED}
    assert "prompt" not in found


def test_an_operator_of_one_type_meets_every_rule_that_can_be_said_in_it() -> None:
    declaration = Declaration(element_types=frozenset({ElementType.BFLOAT16}))

    report = run(NaiveOperator(), declaration)

    said = {
        each.id: each.detail
        for each in report.of(CaseStatus.NOT_APPLICABLE)
        if each.id.startswith(("rule/", "value/"))
    }
    assert report.passed
    assert said == {
        "rule/valid_float32_on_a_gpu_is_the_backends_choice": "arrays are on the host",
        "rule/key_on_another_device": "arrays are on the host",
        "rule/metadata_on_the_device": "arrays are on the host",
        "rule/cache_of_another_float": "means something else in bfloat16",
        "rule/key_of_another_type": "means something else in bfloat16",
    }


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (np.zeros((5, 64), np.float16), "output: expected float32, got float16"),
        (np.zeros((5, 8), np.float32), "output: expected an array [5, 64], got (5, 8)"),
        (np.full((5, 64), np.nan, np.float32), "output: expected finite numbers"),
    ],
)
def test_a_legal_neighbour_must_be_answered_and_not_only_accepted(
    answer: Array, detail: str
) -> None:
    report = run(lambda call: PagedAttentionOutputs(answer), FLOAT32_ONLY)

    found = next(each for each in report.results if each.id == "rule/negative_softcap/neighbour")
    assert (found.reasons, found.detail) == ((Reason.OUTPUT,), detail)


class OwnWords(NaiveOperator):
    """Gives the right rule with a message of its own."""

    def check(self, call: OperatorCall) -> None:
        try:
            super().check(call)
        except ContractViolation as violation:
            raise ContractViolation(violation.rule_id, "x", "better", "worse") from violation


def test_messages_are_an_implementations_own() -> None:
    assert run(OwnWords(), FLOAT32_ONLY).passed


def test_what_an_operator_lacks_is_listed_and_never_passed() -> None:
    declaration = Declaration(
        element_types=frozenset({ElementType.FLOAT32}),
        cache_types=frozenset(),
        lacks=frozenset({"softcap", "latent"}),
    )

    report = run(NaiveOperator(), declaration)

    said = {each.id: each.detail for each in report.of(CaseStatus.NOT_APPLICABLE)}
    assert said["attention/softcap/float32"] == "no softcap"
    assert said["attention/prompt/bfloat16"] == "no element type bfloat16"
    assert said["attention/float8_per_tensor/float32"] == "no float8e4m3fn caches"
    assert said["attention/latent_window_and_softcap/float32"] == "no latent, softcap"
    assert not {each.id for each in report.of(CaseStatus.PASSED)} & set(said)
    assert len(report.results) == len(run(NaiveOperator()).results)


def test_values_are_not_examined_where_nobody_looks_at_them() -> None:
    report = run(NaiveOperator(), Declaration(checks_values=False))

    values = [each for each in report.results if each.id.startswith("value/")]
    assert {each.status for each in values} == {CaseStatus.NOT_APPLICABLE}
    assert report.passed


def test_a_feature_that_does_not_exist_cannot_be_lacking() -> None:
    with pytest.raises(InputUnusable, match=r"lacks: flash; allowed: packed_qkv, latent"):
        Declaration(lacks=frozenset({"flash"}))


@pytest.mark.parametrize("types", [frozenset[ElementType](), frozenset({ElementType.INT8})])
def test_an_operator_has_some_element_type_of_queries(types: frozenset[ElementType]) -> None:
    with pytest.raises(InputUnusable, match="allowed: some of float32, float16, bfloat16"):
        Declaration(element_types=types)


def test_a_report_without_a_case_has_not_passed() -> None:
    assert not ConformanceReport("1.0", ()).passed


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (None, "expected PagedAttentionOutputs, got NoneType"),
        (PagedAttentionOutputs(None), "expected an array float32 [1, 8], got NoneType"),
        (
            PagedAttentionOutputs(np.zeros((1, 8))),
            "expected an array float32 [1, 8], got float64 [1, 8]",
        ),
        (
            PagedAttentionOutputs(np.zeros((1, 1, 8), np.float32)),
            "expected an array float32 [1, 8], got float32 [1, 1, 8]",
        ),
    ],
)
def test_an_answer_that_is_no_output_is_a_failure_with_its_shape(
    answer: PagedAttentionOutputs[Array], detail: str
) -> None:
    report = run(lambda call: answer, FLOAT32_ONLY)

    first = next(each for each in report.results if each.id == "attention/one_token/float32")
    assert first.status is CaseStatus.FAILED
    assert detail in first.detail


def test_a_report_reads_as_counts_and_then_what_did_not_pass() -> None:
    lines = str(run(broken_prologue.EpsilonOutsideTheRoot(), FLOAT32_ONLY)).splitlines()

    assert re.fullmatch(r"contract 1\.0: \d+ passed, 1 failed, \d+ not applicable", lines[0])
    assert lines[1].startswith("failed: attention/qk_norm/float32 - output; stored other keys")
    assert re.search(r"output\[0, \d\]: expected -?[\d.]+, got -?[\d.]+ \(", lines[1])
    assert re.fullmatch(r"not applicable, no element type float16 \(\d+\):", lines[2])
    assert lines[3].startswith("    attention/one_token/float16 attention/prompt/float16 ")
    assert max(map(len, lines[2:])) <= 100


def test_the_contract_does_not_import_the_examination_nor_that_torch() -> None:
    program = (
        "import sys, pa_spec; first = 'pa_spec.conformance' in sys.modules; "
        "import pa_spec.conformance; print(first, 'torch' in sys.modules)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert result.stdout.split() == [b"False", b"False"]
