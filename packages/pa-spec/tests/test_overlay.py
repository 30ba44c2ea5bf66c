from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import ContractViolation, apply_overlay

BASE: dict[str, Any] = {
    "engine": {"dynamic_batching": {"block_size": 32, "max_batch_size": 8}},
    "search": {"top_k": 5},
}


@pytest.mark.rule("V86")
@pytest.mark.parametrize(
    ("overlay", "legal", "message"),
    [
        (
            {"engine": {"dynamic_batching": {"max_batch_size": 4, "block_size": 24}}},
            {"engine": {"dynamic_batching": {"max_batch_size": 4, "block_size": 16}}},
            (
                "engine.dynamic_batching.block_size: block_size: expected a block size that is a "
                "power of two, at least 16, got 24 (V29)"
            ),
        ),
        (
            {"engine": {"dynamic_batching": {"num_blocks": 0}}, "search": {"top_k": 6}},
            {"engine": {"dynamic_batching": {"num_blocks": 1}}, "search": {"top_k": 6}},
            (
                "engine.dynamic_batching.num_blocks: num_blocks: expected an integer from 1 to "
                "2147483647, got 0 (V72)"
            ),
        ),
        (
            {"engine": {"static_batching": {"max_batch_size": 4}}},
            {"engine": {"static_batching": {"max_batch_size": 4}, "dynamic_batching": None}},
            (
                "engine: engine: expected one of dynamic_batching and static_batching, got both of "
                "them (V75)"
            ),
        ),
        ([], {}, "list"),
    ],
)
def test_overlay_whose_result_is_invalid_changes_nothing(
    overlay: Any, legal: Any, message: str
) -> None:
    base = deepcopy(BASE)

    with pytest.raises(ContractViolation) as refused:
        apply_overlay(base, overlay)

    assert str(refused.value) == (
        f"overlay: expected a configuration that is valid as a whole, got {message} (V86)"
    )
    assert base == BASE
    apply_overlay(base, legal)
    assert base == BASE


def test_objects_are_merged_null_takes_away_and_the_rest_replaces() -> None:
    overlay = {
        "engine": {"dynamic_batching": {"block_size": 64, "max_batch_size": None}},
        "search": {"chunk_size": 256},
        "reserve_turn_limit": True,
    }

    assert apply_overlay(BASE, overlay) == {
        "engine": {"dynamic_batching": {"block_size": 64}},
        "search": {"top_k": 5, "chunk_size": 256},
        "reserve_turn_limit": True,
    }


def test_result_shares_nothing_with_its_sources() -> None:
    overlay = {"search": {"top_k": 7}}

    result = apply_overlay(BASE, overlay)
    result["engine"]["dynamic_batching"]["block_size"] = 1
    result["search"]["top_k"] = 1

    assert BASE["engine"]["dynamic_batching"]["block_size"] == 32
    assert overlay == {"search": {"top_k": 7}}


def test_overlay_nested_without_end_is_refused_like_any_other() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"engine": deep}

    with pytest.raises(ContractViolation, match=r"got more than 8 levels \(V86\)"):
        apply_overlay(BASE, deep)


@given(
    st.dictionaries(
        st.sampled_from(["engine", "search", "block_size", "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers(-2, 64) | st.text(max_size=3),
            lambda inner: st.dictionaries(
                st.sampled_from(["dynamic_batching", "block_size", "top_k", "x"]), inner, max_size=3
            ),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_overlay_is_applied_as_a_whole_or_refused_with_v86(overlay: dict[str, Any]) -> None:
    before = deepcopy(overlay)
    result: dict[str, Any] | None = None
    refused = ""
    try:
        result = apply_overlay(BASE, overlay)
    except ContractViolation as error:
        refused = error.rule_id

    assert overlay == before
    assert refused in ("", "V86")
    assert bool(refused) is (result is None)
    assert result is None or apply_overlay(result, {}) == result
