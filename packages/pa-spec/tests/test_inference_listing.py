"""The list of a node's outputs: how many there are, and which may be named (V55 to V57)."""

from __future__ import annotations

import pytest
from pa_spec import ElementType, PagedAttentionAttributes, PagedAttentionInputs
from pa_spec.inference import SymbolicTensor, check_outputs

ROW = SymbolicTensor(ElementType.INT32, ("b",))
CACHE = SymbolicTensor(ElementType.FLOAT16, ("n", "s", 2, 16))
FLAT = SymbolicTensor(ElementType.FLOAT16, ("n", "s", 32))


def messages(
    *outputs: int,
    layout: str = "SEPARATE",
    key_cache: SymbolicTensor = CACHE,
    value_cache: SymbolicTensor | None = CACHE,
) -> list[str]:
    """Check a list of outputs, 1 = named and 0 = an empty name."""
    attributes = PagedAttentionAttributes(4, 2, kv_cache_layout=layout)
    inputs = PagedAttentionInputs(
        query=SymbolicTensor(ElementType.FLOAT16, ("t", 64)),
        key=None,
        value=None,
        key_cache=key_cache,
        value_cache=value_cache,
        cumulative_sequence_length=ROW,
        past_seqlens=ROW,
        block_table=SymbolicTensor(ElementType.INT32, ("b", "m")),
    )
    return [str(each) for each in check_outputs(attributes, inputs, [bool(x) for x in outputs])]


@pytest.mark.rule("V55")
def test_separate_has_one_three_or_four_outputs() -> None:
    expected = "outputs: expected 1, 3 or 4 entries, unused ones with an empty name, got"

    assert messages(1, 1) == [f"{expected} 2 entries (V55)"]
    assert messages(1, 1, 1, 1, 1) == [f"{expected} 5 entries (V55)"]
    assert messages() == [f"{expected} 0 entries (V55)"]
    for outputs in ((1,), (1, 1, 1), (1, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1)):
        assert messages(*outputs) == []


@pytest.mark.rule("V55")
def test_separate_names_both_cache_outputs_or_neither() -> None:
    expected = "expected key_cache_out and value_cache_out both named, or both empty"

    assert messages(1, 1, 0) == [f"value_cache_out: {expected}, got an empty name (V55)"]
    assert messages(1, 0, 1, 1) == [f"key_cache_out: {expected}, got an empty name (V55)"]
    assert messages(1, 1, 1) == []


@pytest.mark.rule("V55")
def test_latent_has_at_most_four_outputs() -> None:
    latent = {"layout": "LATENT", "value_cache": None}

    assert messages(1, 1, 0, 1, 0, **latent) == [  # type: ignore[arg-type]
        "outputs: expected at most 4 entries, unused ones with an empty name, got 5 entries (V55)"
    ]
    for outputs in ((1,), (1, 1), (1, 1, 0), (1, 1, 0, 1), (1, 0, 0, 1)):
        assert messages(*outputs, **latent) == []  # type: ignore[arg-type]


@pytest.mark.rule("V56")
def test_latent_has_no_value_cache_output() -> None:
    found = messages(1, 1, 1, layout="LATENT", value_cache=None)

    assert found == ["value_cache_out: expected absent with LATENT, got an output (V56)"]
    assert messages(1, 1, 0, layout="LATENT", value_cache=None) == []


@pytest.mark.rule("V57")
def test_a_cache_output_needs_its_input() -> None:
    found = messages(1, 1, 1, value_cache=None)

    assert found == [
        "value_cache_out: expected an input value_cache whose buffer it is, got none (V57)"
    ]
    assert messages(1, 1, 1, value_cache=CACHE) == []
    assert messages(1, 0, 0, value_cache=None) == []


@pytest.mark.rule("V57")
def test_a_cache_output_needs_an_input_of_rank_4() -> None:
    found = messages(1, 1, 1, key_cache=FLAT)

    assert found == ["key_cache_out: expected an input key_cache of rank 4, got rank 3 (V57)"]
    assert messages(1, 1, 1, key_cache=SymbolicTensor(None, None)) == []
    assert messages(1, 0, 0, key_cache=FLAT) == []
