"""Goal: a report says all that was resolved, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pa_spec import ElementType, GroupKind, Severity, StateGroup, StateManifest
from pa_spec.checker import (
    EosId,
    Finding,
    FixedRow,
    LayerKind,
    LayerMeaning,
    ModelMeaning,
    Place,
    Report,
    RopeMeaning,
    TargetKind,
    capacity_of,
    report_json,
    report_text,
)
from pa_spec.checker.text import did_you_mean, printable, ranges, shortened, shown
from pa_spec.command import text_of

ROPES = (
    RopeMeaning("default", 10000.0, 128, 8192, 8192),
    RopeMeaning(
        "yarn",
        1e6,
        64,
        32768,
        4096,
        factor=8.0,
        interleaved=True,
        parameters=(("beta_fast", 32.0), ("truncate", True), ("short", (1.0, 2.5)), ("none", None)),
        sections=(16, 24, 24),
    ),
)
ATTENTION = LayerMeaning(
    LayerKind.ATTENTION, 8, 2, 128, 128, window=4096, rope=0, scale=0.0883883, softcap=50.0
)
GLOBAL = replace(ATTENTION, window=-1, rope=1, has_sink=True, has_qk_norm=True, softcap=0.0)
CONV = LayerMeaning(
    LayerKind.CONV, fixed=(FixedRow(GroupKind.FIXED_CONV, (1024, 2), ElementType.BFLOAT16),)
)
MEANING = ModelMeaning(
    model_type="example",
    architecture="ExampleForCausalLM",
    family="example",
    vocab_size=32000,
    hidden_size=1024,
    context_tokens=32768,
    layers=(ATTENTION, ATTENTION, GLOBAL, CONV, ATTENTION),
    ropes=ROPES,
    has_tied_embeddings=True,
    element_type=None,
    cache_element_type=ElementType.BFLOAT16,
    manifest=StateManifest(
        (
            StateGroup(GroupKind.PAGED_KV, (0, 1, 2, 4), (2, 128), ElementType.BFLOAT16),
            StateGroup(GroupKind.FIXED_CONV, (3,), (1024, 2), ElementType.BFLOAT16, 1),
        )
    ),
    eos=(EosId(2, ("config.json eos_token_id",)), EosId(7, ("generation_config.json", "x"))),
    final_softcap=30.0,
    backends={"reference": "", "cpu": "no sinks"},
    weight_bytes=2**30,
)
SCHEMA = json.loads(text_of("report-schema"))


def report_of(meaning: ModelMeaning | None = MEANING, **values: Any) -> Report:
    capacity = capacity_of(meaning, 2**34, 8192) if meaning else None
    values = {"meaning": meaning, "capacity": capacity, "is_strict": False} | values
    return Report("some/folder", TargetKind.HUGGINGFACE_FOLDER, **values)


def document_of(report: Report) -> Any:
    document = json.loads(report_json(report))
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)] == []
    return document


def test_resolved_meaning_is_printed_with_the_layers_that_each_value_is_about() -> None:
    assert report_text(report_of()).splitlines()[2:] == [
        "  model                  example, ExampleForCausalLM, family example",
        "  element type           not said, caches bfloat16",
        "  context                32,768 tokens",
        "  vocabulary             32,000, hidden size 1,024",
        "  tied embeddings        yes",
        "  layers                 attention in layers 0-2, 4",
        "                         conv in layer 3",
        "  heads                  8 query, 2 key and value, of 128 in layers 0-2, 4",
        "  logit scale            0.0883883, softcap 50 in layers 0-1, 4",
        "                         0.0883883 in layer 2",
        "  window                 4,096 tokens in layers 0-1, 4",
        "                         every earlier token in layer 2",
        "  beside                 QK norm, sinks in layer 2",
        "  rope                   default, theta 10000 in layers 0-1, 4",
        (
            "                         yarn, theta 1000000, factor 8, 64 channels, interleaved, "
            "stretched from 4,096 tokens, sections (16, 24, 24), beta_fast 32, truncate true, "
            "short (2 numbers from 1 to 2.5) in layer 2"
        ),
        "  final softcap          30",
        "  state group            paged_kv: 2 x [2x128] bfloat16 in layers 0-2, 4",
        "  state group            fixed_conv: [1024x2] bfloat16 in layer 3",
        "  end of turn            2 (config.json eos_token_id)",
        "  end of turn            7 (generation_config.json, x)",
        "  weight bytes           1,073,741,824",
        "  KV bytes a token       4,096",
        "  fixed bytes a request  4,096",
        "  backend reference      serves it",
        "  backend cpu            no sinks",
        (
            "  sequences that fit     479 of 8,192 tokens in 17,179,869,184 bytes, beside "
            "1,073,741,824 bytes of weights"
        ),
        "                         765 if windowed layers kept only their window",
    ]


def test_length_beyond_the_context_is_said() -> None:
    report = report_of(replace(MEANING, context_tokens=4096, eos=(), weight_bytes=None))

    shown_lines = report_text(report)
    assert "512 of 8,192 tokens (beyond the context) in" not in shown_lines
    assert "8,192 tokens (beyond the context) in 17,179,869,184 bytes, beside unknown weights" in (
        shown_lines
    )
    assert "end of turn            no id in the files" in shown_lines


def test_model_that_keeps_nothing_fits_any_number_of_times() -> None:
    report = report_of(replace(MEANING, layers=()))

    assert "any number of 8,192 tokens" in report_text(report)
    assert document_of(report)["capacity"]["sequences"] == 0


def test_model_that_cannot_be_served_fits_no_times_and_the_reason_is_said() -> None:
    report = report_of(replace(MEANING, manifest=None))

    expected = "none of 8,192 tokens in 17,179,869,184 bytes: no state groups hold what its layers"
    assert expected in report_text(report)
    assert (
        document_of(report)["capacity"]["obstacle"] == "no state groups hold what its layers keep"
    )


def test_json_holds_the_whole_meaning_and_what_follows_from_it() -> None:
    document = document_of(report_of())

    meaning = document["meaning"]
    assert len(meaning["layers"]) == 5
    assert meaning["layers"][3]["kind"] == "conv"
    assert meaning["layers"][3]["fixed"] == [
        {"kind": "fixed_conv", "row_shape": [1024, 2], "element_type": "bfloat16"}
    ]
    assert meaning["ropes"][1]["parameters"] == {
        "beta_fast": 32.0,
        "truncate": True,
        "short": [1.0, 2.5],
        "none": None,
    }
    assert meaning["eos"][1] == {"token_id": 7, "origins": ["generation_config.json", "x"]}
    assert meaning["backends"] == {"reference": "", "cpu": "no sinks"}
    assert (meaning["kv_bytes_per_token"], meaning["fixed_bytes_per_request"]) == (4096, 4096)
    assert document["capacity"]["sequences"] == 479
    assert document["capacity"]["full"]["kv_bytes"] == 4096 * 8192


def test_number_that_json_has_not_is_null() -> None:
    layer = replace(ATTENTION, scale=float("nan"), softcap=float("inf"))
    document = document_of(report_of(replace(MEANING, layers=(layer,))))

    assert document["meaning"]["layers"][0]["scale"] is None
    assert document["meaning"]["layers"][0]["softcap"] is None


def test_findings_are_grouped_by_weight_and_file_in_their_order() -> None:
    def finding(severity: Severity, file: str, inside: str, name: str) -> Finding:
        return Finding("file.x", severity, Place(file, inside), name, "one", "two")

    findings = (
        finding(Severity.NOTE, "", "", "n"),
        finding(Severity.VIOLATION, "b.json", "a.b", "b"),
        finding(Severity.VIOLATION, "a.json", "layer", "key"),
        finding(Severity.VIOLATION, "b.json", "", "c"),
        finding(Severity.UNREADABLE, "", "", "u"),
    )

    lines = report_text(report_of(None, findings=findings, omitted={"V1": 3})).splitlines()

    assert lines == [
        "some/folder (Hugging Face model): cannot be read; 1 unreadable, 3 violations, 1 note",
        "",
        "cannot be read:",
        "  file.x  u: expected one, got two",
        "",
        "violations:",
        "  b.json",
        "    file.x  a.b: expected one, got two",
        "    file.x  c: expected one, got two",
        "  a.json",
        "    file.x  layer: key: expected one, got two",
        "",
        "notes:",
        "  file.x  n: expected one, got two",
        "",
        "  3 more of V1",
    ]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 5, 6, 7], "0, 2-3, 5-7")],
)
def test_numbers_are_written_as_ranges(numbers: list[int], expected: str) -> None:
    assert ranges(numbers) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ('a"b', '"a\\"b"'),
        ([1, 2], "a list of 2"),
        ({}, "an object of 0 keys"),
        (-(2**63), "-9223372036854775808"),
        (1 << 100_000, "an integer of 100001 bits"),
    ],
    ids=["null", "true", "float", "text", "list", "object", "int64", "huge"],
)
def test_values_are_shown_as_their_file_spells_them(value: object, expected: str) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", "a b"),
        ("\x1b[0m", r"\x1b[0m"),
        ("\xff\xad", "ÿ\\xad"),
        ("\u0378\uffff", r"\u0378\uffff"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


@hypothesis_settings(deadline=None)
@given(st.text(), st.integers(5, 300))
def test_any_text_can_be_printed_and_shortened(text: str, most: int) -> None:
    assert printable(text).isprintable()
    assert len(shortened(text, most)) <= most
    assert did_you_mean(text * 1000, ["block_size"]) in {"", " (did you mean block_size?)"}
