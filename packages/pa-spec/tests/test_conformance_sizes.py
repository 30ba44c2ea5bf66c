"""Goal: what is wrong beyond a size, or at one, is caught in every case that reaches it.

Method: each operator of broken_sizes.py comes with the calls in which it is wrong, said of the
call's numbers; in float32 exactly those fail. numpy's operator passes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import broken_sizes
import numpy as np
import pytest
from attention_cases import FLOATS
from naive_operator import NaiveOperator
from pa_spec import ElementType, vectors
from pa_spec.conformance import CaseStatus, Declaration, OperatorCall, run
from pa_spec.conformance.attention import attention_problems
from pa_spec.conformance.problem import Fill, Problem
from pa_spec.conformance.wanted import EXACT, Wanted, drawn
from size_cases import drawn_number


class Facts:
    """What a call is about, for the conditions below."""

    def __init__(self, call: OperatorCall) -> None:
        inputs = call.inputs
        past, bounds = inputs.past_seqlens.tolist(), inputs.cumulative_sequence_length.tolist()
        self.rows = [
            (each, end - first)
            for each, (first, end) in zip(past, pairwise(bounds), strict=True)
            if end > first
        ]
        self.new = max((new for _, new in self.rows), default=0)
        self.context = max((sum(row) for row in self.rows), default=0)
        _, self.block_size, self.kv_heads, self.head_size = inputs.key_cache.shape
        self.attributes = call.attributes
        self.window = call.attributes.local_window_size
        self.heads = call.attributes.num_heads
        self.group = self.heads // self.kv_heads
        self.batch = len(past)
        self.value_size = call.attributes.v_head_size or self.head_size
        self.pairs = 0 if inputs.cos_cache is None else inputs.cos_cache.shape[1]
        metadata = inputs.attention_metadata
        self.bound = 0 if metadata is None else int(metadata[1])
        self.capacity = inputs.block_table.shape[1] * self.block_size


Wrong = Callable[[Facts], bool]

CAUGHT: tuple[tuple[type[NaiveOperator], Wrong], ...] = (
    (
        broken_sizes.WindowOnlyBehindAPast,
        lambda call: any(past == 0 and new > call.window > 0 for past, new in call.rows),
    ),
    (
        broken_sizes.WindowOfWholeBlocks,
        lambda call: call.window >= call.block_size and call.context > call.window,
    ),
    (broken_sizes.ForgetsFrom40, lambda call: call.context > 40),
    (broken_sizes.ForgetsFrom256, lambda call: call.context > 256),
    (broken_sizes.ForgetsFrom2048, lambda call: call.context > 2048),
    (broken_sizes.ChannelsTo64, lambda call: call.value_size > 64),
    (broken_sizes.ChannelsTo128, lambda call: call.value_size > 128),
    (broken_sizes.KeyChannelsTo64, lambda call: call.head_size > 64),
    (broken_sizes.BlocksOf64Swapped, lambda call: call.block_size >= 64),
    (broken_sizes.ColumnsTo64, lambda call: call.context > 64 * call.block_size),
    (broken_sizes.AbsoluteScale, lambda call: call.attributes.scale < 0),
    (broken_sizes.ScaleIfPositive, lambda call: call.attributes.scale < 0),
    (
        broken_sizes.WidthOfTheBound,
        lambda call: call.attributes.qk_output > 0 and call.bound > call.capacity,
    ),
    (broken_sizes.WrongAtThreeKvHeads, lambda call: call.kv_heads == 3),
    (broken_sizes.WrongAtFiveKvHeads, lambda call: call.kv_heads == 5),
    (broken_sizes.WrongAtSevenKvHeads, lambda call: call.kv_heads == 7),
    (
        broken_sizes.GroupsOfAPowerOfTwo,
        lambda call: call.kv_heads > 1 and call.group & (call.group - 1) > 0,
    ),
    (broken_sizes.TileOf64Queries, lambda call: call.new > 64),
    (broken_sizes.RowsTo32, lambda call: call.batch > 32),
    (broken_sizes.PairsTo32, lambda call: call.pairs > 32),
    (broken_sizes.HeadsTo16, lambda call: call.heads > 16 and call.kv_heads > 1),
)


def problems(element_type: str) -> list[Problem]:
    return [each for each in attention_problems() if each.id.endswith(f"/{element_type}")]


def is_caught(operator: NaiveOperator, problem: Problem) -> bool:
    return problem.examine(operator, Declaration()).status is CaseStatus.FAILED


def test_every_wrong_operator_is_in_the_list() -> None:
    members = [each for each in vars(broken_sizes).values() if isinstance(each, type)]
    wrong = {each for each in members if issubclass(each, NaiveOperator)} - {NaiveOperator}

    assert wrong == {row[0] for row in CAUGHT}


@pytest.mark.parametrize(
    ("operator", "is_wrong"), CAUGHT, ids=[each[0].__name__ for each in CAUGHT]
)
def test_a_fault_of_a_size_fails_every_call_of_that_size_and_no_other(
    operator: type[NaiveOperator], is_wrong: Wrong
) -> None:
    found = {each.id for each in problems("float32") if is_caught(operator(), each)}
    coarse = [each for each in problems("bfloat16") if is_wrong(Facts(each.build(Fill.MARK)))]

    assert found == {
        each.id for each in problems("float32") if is_wrong(Facts(each.build(Fill.MARK)))
    }
    assert any(is_caught(operator(), each) for each in coarse)


def test_the_examination_reports_all_of_them() -> None:
    report = run(broken_sizes.WrongAtThreeKvHeads())

    failed = {each.id for each in report.of(CaseStatus.FAILED)}
    assert {f"attention_sizes/heads_9_of_3/{name}" for name in FLOATS} <= failed


def test_numbers_are_drawn_alike_one_by_one_and_in_arrays() -> None:
    for salt in (0, 1, 9599):
        found = drawn((40, 50), salt)

        assert found.reshape(-1).tolist() == [drawn_number(i, salt) for i in range(2000)]
        assert set(found.reshape(-1).tolist()) == {each / 8 for each in range(-12, 13)}


def test_the_numbers_of_a_case_follow_from_the_text_of_its_file() -> None:
    """Element 2 of salt 5, worked out: a, then b, then the 25 steps."""
    a = 2654435761 * (2 + 5 * 1000003) & 0xFFFFFFFF
    b = 2246822519 * (a ^ a >> 15) & 0xFFFFFFFF

    assert drawn_number(2, 5) == drawn((3,), 5)[2] == ((b >> 16) % 25 - 12) / 8


def test_what_lies_between_the_stated_numbers_must_be_numbers() -> None:
    wanted = Wanted((2, 3), np.array([1.0, 2.0]), step=4)
    right = np.array([[1, 7, 7], [7, 2, 7]], np.float32)
    other = right.copy()
    right[0, 2], other[1, 1] = 9, 3
    leak = right.copy()
    leak[1, 0] = np.nan

    said = [wanted.difference(each, ElementType.FLOAT32, EXACT) for each in (right, other, leak)]

    assert said == [
        "",
        "[1, 1]: expected 2, got 3 (1 of 6 differ)",
        "[1, 0]: expected a number, got nan (1 of 6 differ)",
    ]


def test_the_file_has_the_sizes_that_models_and_engines_have() -> None:
    cases = vectors("attention_sizes")
    shapes = [case["key_cache"]["shape"] for case in cases]
    heads = {
        (case["attributes"]["num_heads"], shape[2])
        for case, shape in zip(cases, shapes, strict=True)
    }

    assert {64, 80, 96, 112, 128, 192, 256, 576} <= {shape[3] for shape in shapes}
    assert {16, 32, 64, 128, 256, 512} <= {shape[1] for shape in shapes}
    assert {(9, 3), (14, 2), (25, 5), (14, 7), (28, 4), (32, 8), (16, 16), (8, 1)} <= heads


@pytest.mark.parametrize("case", vectors("attention_sizes"), ids=lambda case: str(case["id"]))
def test_every_token_head_and_group_of_channels_has_a_stated_number(
    case: Mapping[str, Any],
) -> None:
    tokens, width = case["expected"]["output"]["shape"]
    parts = {"output": (tokens, case["attributes"]["num_heads"])}
    for name in ("key_cache", "value_cache"):
        if name in case:
            parts[name] = (len(case["expected"][name]["slots"]), case[name]["shape"][2])
    for name, (rows, heads) in parts.items():
        size = width // heads if name == "output" else case[name]["shape"][3]
        stated = range(0, rows * heads * size, case["expected"][name]["step"])

        assert len(stated) == len(case["expected"][name]["values"])
        assert {each // (heads * size) for each in stated} == set(range(rows))
        assert {each // size % heads for each in stated} == set(range(heads))
        assert {each % size // 8 for each in stated} == set(range(size // 8))


def test_vectors_stay_small() -> None:
    folder = Path(__file__).resolve().parents[3] / "spec" / "vectors"

    assert sum(path.stat().st_size for path in folder.glob("*.json")) < 600_000
