"""Expressions of tensors.toml: what they know, what they cannot, and that all of them are ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pa_spec import InputUnusable
from pa_spec.checker.huggingface.weights.size_expression import UNKNOWN, evaluate
from pa_spec.checker.huggingface.weights.tensor_layout import tensor_layouts, tensor_parts

NAMES: dict[str, Any] = {
    "a": 6,
    "b": 4,
    "yes": True,
    "null": None,
    "text": "M-E",
    "items": [1, 3],
    "nan": float("nan"),
    "huge": 2**62,
    "factor": 1.5,
}


def value(text: str) -> Any:
    return evaluate(text, lambda name: NAMES.get(name, UNKNOWN))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a * b + 2", 26),
        ("-(-a // b) * b", 8),
        ("factor * a // 1", 9.0),
        ("a % b == 2 and yes", True),
        ("not null", True),
        ("3 in items", True),
        ("2 not in items", True),
        ("text[2] == 'E'", True),
        ("either(absent, null, b)", 4),
        ("a if yes else absent", 6),
        ("absent or yes", True),
        ("absent and not yes", False),
        ("absent", UNKNOWN),
        ("absent * 2", UNKNOWN),
        ("absent and yes", UNKNOWN),
        ("not absent", UNKNOWN),
        ("a if absent else b", UNKNOWN),
        ("null + 1", UNKNOWN),
        ("yes + 1", UNKNOWN),
        ("nan + 1", UNKNOWN),
        ("huge * 2", UNKNOWN),
        ("a // 0", UNKNOWN),
        ("text < 3", UNKNOWN),
        ("3 in a", UNKNOWN),
        ("text[9]", UNKNOWN),
        ("items[-1]", UNKNOWN),
        ("either(absent, null)", UNKNOWN),
    ],
)
def test_expression_is_worth_what_is_known_of_it(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text", ["open('x')", "a.b", "lambda: 1", "[x for x in items]", "a +", "a := 3"]
)
def test_anything_else_is_no_expression(text: str) -> None:
    with pytest.raises(InputUnusable):
        value(text)


def expressions() -> Iterator[str]:
    for part in tensor_parts().values():
        for row in part.tensors:
            yield from row.shape.split(",")
            yield from filter(None, (part.when, row.when, row.count, row.optional))
    for layout in tensor_layouts().values():
        yield from layout.sizes.values()


def test_every_expression_of_the_contract_is_allowed() -> None:
    refused = []
    for text in set(expressions()) - {""}:  # a scalar has no extents
        try:
            evaluate(text.strip(), lambda _: UNKNOWN)
            evaluate(text.strip(), lambda _: 1)
        except InputUnusable as error:
            refused.append(f"{text}: {error}")

    assert refused == []


def test_layouts_name_parts_that_exist_and_every_part_is_used() -> None:
    named = {
        each
        for layout in tensor_layouts().values()
        for ids in layout.parts
        for each in ids.split(" | ")
    }

    assert named == tensor_parts().keys()
