"""Goal: each rule is reported, exactly, in its words; valid calls pass.

Method: the golden vectors name calls, the messages that they must produce, and for each invalid
call the nearest legal one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import (
    ContractViolation,
    Decider,
    RuleStatus,
    check,
    rules,
    validate,
    vectors,
)
from pa_spec.testing import example_call

CASES = vectors("validation")
# Decided from a configuration, a manifest or a node's outputs, not from a call's signature.
BY_OTHER_MEANS = {"configuration", "manifest", "outputs"}


@pytest.mark.rule("V1", "V2", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13", "V14")
@pytest.mark.rule("V15", "V16", "V17", "V18", "V19", "V20", "V21", "V22", "V23", "V24", "V25")
@pytest.mark.rule("V26", "V27", "V28", "V29", "V30", "V31", "V32", "V33", "V34", "V35", "V36")
@pytest.mark.rule("V37", "V38", "V39", "V40", "V41", "V42", "V43", "V44", "V45", "V46", "V47")
@pytest.mark.rule("V48", "V49", "V50", "V51", "V52", "V53", "V58", "V66", "V67", "V69", "V98")
@pytest.mark.rule("V99", "V100", "V101", "V102", "V103", "V104", "V106")
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_call_breaks_exactly_the_rules_of_its_vector(case: Mapping[str, Any]) -> None:
    found = validate(example_call(case["mode"], case["changes"]))

    assert [str(each) for each in found] == case["violations"]
    if found:
        legal = case["changes"] | case["neighbour"]
        assert validate(example_call(case["mode"], legal)) == ()


def test_vectors_break_every_rule_that_a_signature_decides() -> None:
    decided = {
        rule.id
        for rule in rules().values()
        if rule.decided_by is Decider.SPEC
        and rule.status is RuleStatus.ACTIVE
        and rule.area not in BY_OTHER_MEANS
    }
    broken = [example_call(case["mode"], case["changes"]) for case in CASES]

    assert {each.rule_id for call in broken for each in validate(call)} == decided


def test_vector_of_an_invalid_call_breaks_one_rule_only() -> None:
    for case in CASES:
        found = {each.rule_id for each in validate(example_call(case["mode"], case["changes"]))}

        assert len(found) == (1 if case["violations"] else 0), case["id"]


@pytest.mark.parametrize(
    ("name", "value", "rule_id"),
    [
        ("qk_norm_epsilon", nan, "V4"),
        ("qk_norm_epsilon", inf, "V4"),
        ("softcap", nan, "V100"),
        ("softcap", inf, "V100"),
        ("scale", nan, "V100"),
        ("scale", -inf, "V100"),
    ],
)
@pytest.mark.spec("V4", "V100")
def test_numbers_that_are_not_finite_are_refused(name: str, value: float, rule_id: str) -> None:
    (found,) = validate(example_call("separate", {name: value}))

    assert (found.rule_id, found.name, found.actual) == (rule_id, name, str(value))


def test_all_violations_are_reported_together() -> None:
    call = example_call("separate", {"block_table": {"shape": [9, 4]}, "softcap": -1.0})

    assert [each.rule_id for each in validate(call)] == ["V100", "V34"]


def test_check_raises_the_first_violation_and_passes_valid_calls() -> None:
    check(example_call("latent"))

    with pytest.raises(ContractViolation) as caught:
        check(example_call("packed", {"num_heads": 0, "softcap": -1.0}))

    assert caught.value.rule_id == "V1"
    assert caught.value.name == "num_heads"


@st.composite
def geometries(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw a mode and sizes that fit together."""
    packed = draw(st.booleans())
    kv_heads, group = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    head_size, block_size = 8 * draw(st.integers(1, 40)), 2 ** draw(st.integers(4, 12))
    rows, tokens = draw(st.integers(1, 50)), draw(st.integers(0, 200))
    heads, width = kv_heads * group, kv_heads * head_size
    cache = {"shape": [3, block_size, kv_heads, head_size]}
    changes: dict[str, Any] = {
        "num_heads": heads,
        "kv_num_heads": kv_heads,
        "query": {"shape": [tokens, heads * head_size + (2 * width if packed else 0)]},
        "key_cache": cache,
        "value_cache": cache,
        "cumulative_sequence_length": {"shape": [rows + 1]},
        "past_seqlens": {"shape": [rows]},
        "block_table": {"shape": [rows, draw(st.integers(1, 9))]},
    }
    if packed:
        return "packed", changes
    row = {"shape": [tokens, width]}
    return "separate", changes | {"key": row, "value": row}


@given(geometries())
def test_consistent_geometry_is_always_valid(geometry: tuple[str, dict[str, Any]]) -> None:
    mode, changes = geometry

    assert validate(example_call(mode, changes)) == ()


@given(
    st.sampled_from(["separate", "packed", "latent"]),
    st.dictionaries(
        st.sampled_from([name for name, tensor in example_call("separate").inputs.named()]),
        st.none() | st.lists(st.integers(0, 40), max_size=5).map(lambda shape: {"shape": shape}),
    ),
    st.integers(-2, 9),
    st.integers(-2, 9),
)
def test_no_signature_whatever_makes_validation_itself_fail(
    mode: str, changes: dict[str, Any], heads: int, kv_heads: int
) -> None:
    required = {"query", "key_cache", "cumulative_sequence_length", "past_seqlens", "block_table"}
    kept = {name: each for name, each in changes.items() if each or name not in required}
    call = example_call(mode, kept | {"num_heads": heads, "kv_num_heads": kv_heads})

    found = validate(call)

    assert all(each.rule_id in rules() for each in found)


def test_valid_call_is_validated_well_under_100_microseconds() -> None:
    call = example_call(
        "separate",
        {
            "cos_cache": {"shape": [64, 8]},
            "sin_cache": {"shape": [64, 8]},
            "do_rotary": 1,
            "attention_metadata": {"shape": [3]},
            "metadata": [1, 64, 1],
        },
    )
    times = []
    for _ in range(50):
        started = perf_counter()
        for _ in range(20):
            validate(call)
        times.append((perf_counter() - started) / 20)

    # The best of many: a busy machine must not fail a test of the code.
    assert min(times) < 50e-6
