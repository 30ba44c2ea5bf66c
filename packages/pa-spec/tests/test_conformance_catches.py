"""Goal: the examination passes what is right and catches what is wrong, for the reason meant.

Method: an operator of its own passes; operators that are wrong in one way each fail exactly the
cases that are about it. Names of cases are those of spec/vectors; attention_sizes.json is the
matter of test_conformance_sizes.py.
"""

from __future__ import annotations

import broken_attention
import broken_prologue
import broken_storage
import pytest
from naive_operator import NaiveOperator
from pa_spec import CONTRACT_VERSION, ElementType
from pa_spec.conformance import (
    CaseStatus,
    ConformanceReport,
    Declaration,
    Reason,
    run,
)
from pa_spec.conformance.attention import attention_problems
from pa_spec.conformance.rule import rule_cases
from pa_spec.conformance.slot import quantization_problems, slot_problems

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
OUTSIDE = "unmapped_and_outside_the_pool first_id_beyond_the_pool"
SCALED = (
    "int8_per_tensor int8_per_channel int8_mixed_granularity float8_per_tensor float8_per_channel"
)

# The operator, the cases that it fails, and everything that is wrong in them.
CAUGHT: tuple[tuple[type[NaiveOperator], str, set[Reason]], ...] = (
    (broken_attention.WindowOneTooLong, WINDOWS, {OUTPUT, SCORES}),
    (broken_attention.WindowOneTooShort, f"{WINDOWS} window_as_long_as_context", {OUTPUT, SCORES}),
    (broken_attention.SinkInNumerator, SINKS, {OUTPUT, SCORES}),
    (broken_attention.SinkOfTheWrongHead, SINKS, {OUTPUT, SCORES}),
    (broken_attention.SoftmaxWithoutMaximum, "large_logits", {OUTPUT}),
    (
        broken_attention.SoftcapBehindTheMask,
        f"{CAPPED} latent_window_and_softcap bias_behind_the_softcap",
        {OUTPUT, SCORES},
    ),
    (broken_attention.SoftcapWithoutTanhScale, CAPPED, {OUTPUT, SCORES}),
    (
        broken_attention.BiasBeforeSoftcap,
        "bias_behind_the_softcap scores_before_softmax",
        {OUTPUT, SCORES},
    ),
    (broken_attention.BiasIgnoresItsRow, "bias", {OUTPUT}),
    (
        broken_attention.ScaleIgnored,
        f"{CAPPED} scale negative_scale large_logits bias_behind_the_softcap",
        {OUTPUT, SCORES},
    ),
    (broken_prologue.PairsOfTheOtherKind, TURNS, {OUTPUT, STORED}),
    (broken_prologue.HalvesOfTheWholeHead, "rotary_partial", {OUTPUT, STORED}),
    (broken_prologue.RotaryOffsetIgnored, "rotary_offset latent_rotary", {OUTPUT, STORED}),
    (broken_prologue.PositionsOneAhead, TURNS, {OUTPUT, STORED}),
    (broken_prologue.PositionsFromTheChunk, TURNS, {OUTPUT, STORED}),
    (broken_prologue.RotatesUnasked, "rotary_not_asked_for", {OUTPUT, STORED}),
    (
        broken_prologue.NormBehindRotary,
        "qk_norm_before_rotary everything_at_once",
        {OUTPUT, STORED},
    ),
    (broken_prologue.EpsilonOutsideTheRoot, "qk_norm", {OUTPUT, STORED}),
    (broken_attention.HeadsDealtRoundRobin, "grouped_heads everything_at_once", {OUTPUT}),
    (broken_prologue.ValueBeforeKey, "packed_qkv everything_at_once", {OUTPUT, STORED}),
    (broken_prologue.ScaleIndexSwapped, "int8_per_channel float8_per_channel", {OUTPUT, STORED}),
    (broken_prologue.KeyScaleForValues, SCALED, {OUTPUT, STORED}),
    (
        broken_prologue.RoundsHalfAway,
        f"{INT8} int8_ties int8_ties_behind_a_scale int8_scale_of_three",
        {OUTPUT, STORED},
    ),
    (broken_prologue.WrapsInsteadOfClamping, "int8_saturates int8_range", {OUTPUT, STORED}),
    (broken_storage.ReadsBeforeWriteBack, f"{SCALED} int8_saturates latent_int8", {OUTPUT}),
    (broken_storage.AttendsBeforeOthersStore, "stores_first", {OUTPUT}),
    (broken_storage.StoresWhereSlotIsMinusOne, "slot_not_stored", {OUTPUT, TOUCHED}),
    (
        broken_storage.SlotMappingIgnored,
        "slot_not_stored slot_elsewhere",
        {OUTPUT, STORED, TOUCHED},
    ),
    (
        broken_storage.WritesToTheLastSlot,
        f"{UNWRITTEN} {OUTSIDE}",
        {STORED, TOUCHED},
    ),
    (
        broken_storage.UnmappedReadAsBlockZero,
        "unmapped_block unmapped_write ids_outside_the_pool padding_row scores_of_padding",
        {OUTPUT, SCORES, LEAK},
    ),
    (
        broken_storage.TrustsTheTable,
        f"ids_outside_the_pool {OUTSIDE}",
        {OUTPUT, TOUCHED},
    ),
    (
        broken_attention.PaddingIsNotANumber,
        "ids_outside_the_pool padding_row scores_of_padding",
        {OUTPUT},
    ),
    (
        broken_storage.PositionsMoveTheSlot,
        "query_positions query_positions_turn",
        {OUTPUT, STORED, TOUCHED},
    ),
    (broken_attention.MetadataInTheMask, "metadata_of_three metadata_beyond_the_table", {OUTPUT}),
    (broken_attention.ScoresWithoutTheSink, "scores_behind_softmax", {SCORES}),
    (
        broken_attention.ScoresBeforeScale,
        "scores_before_softmax scores_of_padding scores_beyond_the_table",
        {SCORES},
    ),
    (broken_attention.LatentValuesFromTheTail, LATENT, {OUTPUT}),
    (broken_storage.BlocksOf16Only, "wider_block padding_row block_size_48", {Reason.REFUSED}),
)

# What is wrong everywhere: one case that shows it, and the only thing that is wrong in any.
EVERYWHERE: tuple[tuple[type[NaiveOperator], str, Reason], ...] = (
    (broken_attention.NotCausal, "prompt", OUTPUT),
    (broken_storage.LeaksUnusedSlots, "one_token", LEAK),
    (broken_storage.ClearsTheBlock, "one_token", TOUCHED),
    (broken_storage.ChangesItsQuery, "one_token", Reason.INPUT),
    (broken_storage.AcceptsEverything, "negative_softcap", Reason.ACCEPTED),
    (broken_storage.RefusesByAnotherRule, "packed_width", Reason.RULE),
    (broken_storage.StoresBeforeItRefuses, "packed_width", Reason.CHANGED),
)


def examined(operator: NaiveOperator, declaration: Declaration) -> ConformanceReport:
    """Do as run does, without the calls of attention_sizes.json, for the time they take."""
    golden = (*attention_problems(), *slot_problems(), *quantization_problems())
    small = [each for each in golden if not each.id.startswith("attention_sizes/")]
    results = [each.examine(operator, declaration) for each in small]
    results += [each.examine(operator, declaration) for each in rule_cases()]
    return ConformanceReport(CONTRACT_VERSION, tuple(results))


def failures(report: ConformanceReport) -> dict[str, set[Reason]]:
    found: dict[str, set[Reason]] = {}
    for result in report.of(CaseStatus.FAILED):
        found.setdefault(result.id.split("/")[1], set()).update(result.reasons)
    return found


def test_every_wrong_operator_is_examined() -> None:
    modules = (broken_attention, broken_prologue, broken_storage)
    members = [each for module in modules for each in vars(module).values()]
    classes = {each for each in members if isinstance(each, type)}
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
    report = examined(operator(), FLOAT32_AND_BFLOAT16)

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
    found = failures(examined(operator(), FLOAT32_ONLY))

    assert reason in found[case], found[case]


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (broken_storage.AcceptsEverything, Reason.ACCEPTED),
        (broken_storage.RefusesByAnotherRule, Reason.RULE),
    ],
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
