"""Goal: the examination passes what is right and catches what is wrong, for the reason meant.

Method: an operator of its own passes; operators that are wrong in one way each fail exactly the
cases that are about it. Names of cases are those of spec/vectors.
"""

from __future__ import annotations

import re

import broken_operators as broken
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
from pa_spec.conformance.rule import rule_cases

FLOAT32_ONLY = Declaration(element_types=frozenset({ElementType.FLOAT32}))
FLOAT32_AND_BFLOAT16 = Declaration(
    element_types=frozenset({ElementType.FLOAT32, ElementType.BFLOAT16})
)
OUTPUT, SCORES, STORED = Reason.OUTPUT, Reason.OUTPUT_QK, Reason.STORED
TOUCHED, LEAK = Reason.TOUCHED, Reason.LEAK

TURNS = (
    "rotary_halves rotary_interleaved rotary_partial rotary_offset qk_norm_before_rotary"
    " latent_rotary query_positions_turn everything_at_once"
)
WINDOWS = (
    "window_shorter_than_context window_of_one window_in_a_prompt rolling_window ring_table"
    " latent_window_and_softcap query_positions_turn scores_behind_softmax everything_at_once"
)
SINKS = "head_sink high_sink scores_behind_softmax everything_at_once"
CAPPED = "softcap softcap_under_the_mask scores_before_softmax everything_at_once"
LATENT = "latent latent_window_and_softcap latent_rotary latent_int8"
INT8 = "int8_per_tensor int8_per_channel int8_mixed_granularity latent_int8"
UNWRITTEN = "slot_not_stored unmapped_write ids_outside_the_pool padding_row scores_of_padding"
SCALED = (
    "int8_per_tensor int8_per_channel int8_mixed_granularity float8_per_tensor float8_per_channel"
)

# The operator, the cases that it fails, and everything that is wrong in them.
CAUGHT: tuple[tuple[type[NaiveOperator], str, set[Reason]], ...] = (
    (broken.WindowOneTooLong, WINDOWS, {OUTPUT, SCORES}),
    (broken.WindowOneTooShort, f"{WINDOWS} window_as_long_as_context", {OUTPUT, SCORES}),
    (broken.SinkInNumerator, SINKS, {OUTPUT, SCORES}),
    (broken.SinkOfTheWrongHead, SINKS, {OUTPUT, SCORES}),
    (broken.SoftmaxWithoutMaximum, "large_logits", {OUTPUT}),
    (
        broken.SoftcapBehindTheMask,
        f"{CAPPED} latent_window_and_softcap bias_behind_the_softcap",
        {OUTPUT, SCORES},
    ),
    (broken.SoftcapWithoutTanhScale, CAPPED, {OUTPUT, SCORES}),
    (broken.BiasBeforeSoftcap, "bias_behind_the_softcap scores_before_softmax", {OUTPUT, SCORES}),
    (broken.BiasIgnoresItsRow, "bias", {OUTPUT}),
    (
        broken.ScaleIgnored,
        f"{CAPPED} scale large_logits bias_behind_the_softcap",
        {OUTPUT, SCORES},
    ),
    (broken.PairsOfTheOtherKind, TURNS, {OUTPUT, STORED}),
    (broken.HalvesOfTheWholeHead, "rotary_partial", {OUTPUT, STORED}),
    (broken.RotaryOffsetIgnored, "rotary_offset latent_rotary", {OUTPUT, STORED}),
    (broken.PositionsOneAhead, TURNS, {OUTPUT, STORED}),
    (broken.PositionsFromTheChunk, TURNS, {OUTPUT, STORED}),
    (broken.RotatesUnasked, "rotary_not_asked_for", {OUTPUT, STORED}),
    (broken.NormBehindRotary, "qk_norm_before_rotary everything_at_once", {OUTPUT, STORED}),
    (broken.EpsilonOutsideTheRoot, "qk_norm", {OUTPUT, STORED}),
    (broken.HeadsDealtRoundRobin, "grouped_heads everything_at_once", {OUTPUT}),
    (broken.ValueBeforeKey, "packed_qkv everything_at_once", {OUTPUT, STORED}),
    (broken.ScaleIndexSwapped, "int8_per_channel float8_per_channel", {OUTPUT, STORED}),
    (broken.KeyScaleForValues, SCALED, {OUTPUT, STORED}),
    (
        broken.RoundsHalfAway,
        f"{INT8} int8_ties int8_ties_behind_a_scale int8_scale_of_three",
        {OUTPUT, STORED},
    ),
    (broken.WrapsInsteadOfClamping, "int8_saturates int8_range", {OUTPUT, STORED}),
    (broken.ReadsBeforeWriteBack, f"{SCALED} int8_saturates latent_int8", {OUTPUT}),
    (broken.AttendsBeforeOthersStore, "stores_first", {OUTPUT}),
    (broken.StoresWhereSlotIsMinusOne, "slot_not_stored", {OUTPUT, TOUCHED}),
    (broken.SlotMappingIgnored, "slot_not_stored slot_elsewhere", {OUTPUT, STORED, TOUCHED}),
    (
        broken.WritesToTheLastSlot,
        f"{UNWRITTEN} unmapped_and_outside_the_pool",
        {STORED, TOUCHED},
    ),
    (
        broken.UnmappedReadAsBlockZero,
        "unmapped_block unmapped_write ids_outside_the_pool padding_row scores_of_padding",
        {OUTPUT, SCORES, LEAK},
    ),
    (
        broken.TrustsTheTable,
        "ids_outside_the_pool unmapped_and_outside_the_pool",
        {OUTPUT, TOUCHED},
    ),
    (
        broken.PaddingIsNotANumber,
        "ids_outside_the_pool padding_row scores_of_padding",
        {OUTPUT},
    ),
    (
        broken.PositionsMoveTheSlot,
        "query_positions query_positions_turn",
        {OUTPUT, STORED, TOUCHED},
    ),
    (broken.MetadataInTheMask, "metadata_of_three metadata_beyond_the_table", {OUTPUT}),
    (broken.ScoresWithoutTheSink, "scores_behind_softmax", {SCORES}),
    (broken.ScoresBeforeScale, "scores_before_softmax scores_of_padding", {SCORES}),
    (broken.LatentValuesFromTheTail, LATENT, {OUTPUT}),
    (broken.BlocksOf16Only, "wider_block padding_row block_size_48", {Reason.REFUSED}),
)

# What is wrong everywhere: one case that shows it, and the only thing that is wrong in any.
EVERYWHERE: tuple[tuple[type[NaiveOperator], str, Reason], ...] = (
    (broken.NotCausal, "prompt", OUTPUT),
    (broken.LeaksUnusedSlots, "one_token", LEAK),
    (broken.ClearsTheBlock, "one_token", TOUCHED),
    (broken.ChangesItsQuery, "one_token", Reason.INPUT),
    (broken.AcceptsEverything, "negative_softcap", Reason.ACCEPTED),
    (broken.RefusesByAnotherRule, "packed_width", Reason.RULE),
    (broken.StoresBeforeItRefuses, "packed_width", Reason.CHANGED),
)


def failures(report: ConformanceReport) -> dict[str, set[Reason]]:
    found: dict[str, set[Reason]] = {}
    for result in report.of(CaseStatus.FAILED):
        found.setdefault(result.id.split("/")[1], set()).update(result.reasons)
    return found


def test_every_wrong_operator_is_examined() -> None:
    classes = {each for each in vars(broken).values() if isinstance(each, type)}
    wrong = {each for each in classes if issubclass(each, NaiveOperator)} - {NaiveOperator}

    assert wrong == {row[0] for row in (*CAUGHT, *EVERYWHERE)}


def test_an_operator_of_its_own_passes_everything() -> None:
    report = run(NaiveOperator())

    assert report.passed, str(report)
    assert {each.detail for each in report.of(CaseStatus.NOT_APPLICABLE)} == {
        "arrays are on the host"
    }


@pytest.mark.parametrize(
    ("operator", "cases", "reasons"), CAUGHT, ids=[row[0].__name__ for row in CAUGHT]
)
def test_a_wrong_operator_fails_the_cases_about_it_and_no_other(
    operator: type[NaiveOperator], cases: str, reasons: set[Reason]
) -> None:
    report = run(operator(), FLOAT32_AND_BFLOAT16)

    found = failures(report)
    types = {each.id.split("/")[-1] for each in report.of(CaseStatus.FAILED)}
    assert set(found) == set(cases.split())
    assert set().union(*found.values()) == reasons
    # An operator of coarse numbers is caught as well; what overflows in float32 is none of those.
    assert {"float32", "bfloat16"} - types <= ({"bfloat16"} if cases == "large_logits" else set())


@pytest.mark.parametrize(("operator", "case", "reason"), EVERYWHERE)
def test_what_is_wrong_everywhere_is_named(
    operator: type[NaiveOperator], case: str, reason: Reason
) -> None:
    found = failures(run(operator(), FLOAT32_ONLY))

    assert reason in found[case], found[case]


@pytest.mark.parametrize(
    ("operator", "reason"),
    [(broken.AcceptsEverything, Reason.ACCEPTED), (broken.RefusesByAnotherRule, Reason.RULE)],
)
def test_every_illegal_call_tells_a_wrong_refusal_and_no_legal_call_does(
    operator: type[NaiveOperator], reason: Reason
) -> None:
    report = run(operator(), FLOAT32_ONLY)

    wrong = {each.id for each in report.of(CaseStatus.FAILED)}
    illegal = {each.id for each in rule_cases() if each.rule_ids} - {
        each.id for each in report.of(CaseStatus.NOT_APPLICABLE)
    }
    said_right = {"rule/block_size_8", "rule/block_size_48"}
    said_right |= {each for each in illegal if each.startswith("value/")}
    assert wrong == (illegal if reason is Reason.ACCEPTED else illegal - said_right)
    assert {each.reasons for each in report.of(CaseStatus.FAILED)} == {(reason,)}


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
    lines = str(run(broken.EpsilonOutsideTheRoot(), FLOAT32_ONLY)).splitlines()

    assert re.fullmatch(r"contract 1\.0: \d+ passed, 1 failed, \d+ not applicable", lines[0])
    assert lines[1].startswith("failed: attention/qk_norm/float32 - output; stored other keys")
    assert re.search(r"output\[0, \d\]: expected -?[\d.]+, got -?[\d.]+ \(", lines[1])
    assert lines[2].startswith("not applicable: attention/one_token/float16 - no element type")
