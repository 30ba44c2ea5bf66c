"""Goal: each rule about a node's list of outputs is said in its words; the nearest list passes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from pa_spec.inference import SymbolicTensor, check_outputs
from pa_spec.operator import PagedAttentionAttributes, PagedAttentionInputs
from pa_spec.testing import example_call

NAMED, EMPTY = True, False


def said(mode: str, outputs: list[bool], **changed: Any) -> list[str]:
    call = example_call(mode)
    tensors: dict[str, Any] = {}
    for field in fields(PagedAttentionInputs):
        found = getattr(call.inputs, field.name)
        tensors[field.name] = None if found is None else symbolic(*found.shape)
    attributes: PagedAttentionAttributes = call.attributes
    inputs = PagedAttentionInputs(**{**tensors, **changed})
    return [str(each) for each in check_outputs(attributes, inputs, outputs)]


def symbolic(*shape: int) -> SymbolicTensor:
    return SymbolicTensor(None, shape)


CASES = [
    pytest.param(
        ("separate", [NAMED, NAMED], {}),
        ("separate", [NAMED, NAMED, NAMED], {}),
        "outputs: expected 1, 3 or 4 entries, unused ones with an empty name, got 2 entries (V55)",
        marks=pytest.mark.rule("V55"),
    ),
    pytest.param(
        ("separate", [NAMED] * 5, {}),
        ("separate", [NAMED] * 4, {}),
        "outputs: expected 1, 3 or 4 entries, unused ones with an empty name, got 5 entries (V55)",
        marks=pytest.mark.rule("V55"),
    ),
    pytest.param(
        ("separate", [NAMED, NAMED, EMPTY, NAMED], {}),
        ("separate", [NAMED, EMPTY, EMPTY, NAMED], {}),
        "value_cache_out: expected key_cache_out and value_cache_out both named, or both empty, "
        "got an empty name (V55)",
        marks=pytest.mark.rule("V55"),
    ),
    pytest.param(
        ("latent", [NAMED, NAMED, EMPTY, NAMED, EMPTY], {}),
        ("latent", [NAMED, NAMED, EMPTY, NAMED], {}),
        "outputs: expected at most 4 entries, unused ones with an empty name, got 5 entries (V55)",
        marks=pytest.mark.rule("V55"),
    ),
    pytest.param(
        ("latent", [NAMED, NAMED, NAMED], {}),
        ("latent", [NAMED, NAMED, EMPTY], {}),
        "value_cache_out: expected absent with LATENT, got an output (V56)",
        marks=pytest.mark.rule("V56"),
    ),
    pytest.param(
        ("separate", [NAMED, NAMED, NAMED], {"value_cache": None}),
        ("separate", [NAMED], {"value_cache": None}),
        "value_cache_out: expected an input value_cache whose buffer it is, got none (V57)",
        marks=pytest.mark.rule("V57"),
    ),
    pytest.param(
        ("latent", [NAMED, NAMED], {"key_cache": symbolic(8, 16, 40)}),
        ("latent", [NAMED, NAMED], {"key_cache": symbolic(8, 16, 1, 40)}),
        "key_cache_out: expected an input key_cache of rank 4, got rank 3 (V57)",
        marks=pytest.mark.rule("V57"),
    ),
]


@pytest.mark.parametrize(("wrong", "legal", "message"), CASES)
def test_list_of_outputs_is_refused_in_the_words_of_its_rule(
    wrong: tuple[str, list[bool], dict[str, Any]],
    legal: tuple[str, list[bool], dict[str, Any]],
    message: str,
) -> None:
    assert said(wrong[0], wrong[1], **wrong[2]) == [message]
    assert said(legal[0], legal[1], **legal[2]) == []
