from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import ContractViolation, check_lengths


def lengths(cumulative: list[int], past: list[int], tokens: int, capacity: int) -> None:
    check_lengths(np.array(cumulative, np.int32), np.array(past, np.int32), tokens, capacity)


@pytest.mark.spec("V65")
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20),
)
def test_prefix_sums_inside_the_table_pass(rows: list[tuple[int, int]]) -> None:
    cumulative = [0, *np.cumsum([new for _, new in rows]).tolist()]
    capacity = max(past + new for past, new in rows)

    lengths(cumulative, [past for past, _ in rows], cumulative[-1], capacity)


@pytest.mark.spec("V65")
@pytest.mark.parametrize(
    ("cumulative", "past", "name", "message"),
    [
        ([1, 3], [0], "cumulative_sequence_length", "expected a first entry of 0, got 1"),
        ([0, 2], [0], "cumulative_sequence_length", "expected a last entry of T=3, got 2"),
        ([0, 4, 3], [0, 0], "cumulative_sequence_length", "got -1 tokens in row 1"),
        ([0, 3], [-1], "past_seqlens", "expected entries of at least 0, got -1 in row 0"),
        ([0, 0, 3], [17, 0], "past_seqlens", "of at most 16, what the block table addresses"),
        ([0, 3], [14], "past_seqlens", "got 14 + 3 in row 0"),
        ([0, 3], [2**31 - 1], "past_seqlens", "got 2147483647 + 3 in row 0"),
    ],
)
def test_lengths_that_cannot_be_are_refused_by_name(
    cumulative: list[int], past: list[int], name: str, message: str
) -> None:
    with pytest.raises(ContractViolation) as caught:
        lengths(cumulative, past, tokens=3, capacity=16)

    assert (caught.value.rule_id, caught.value.name) == ("V65", name)
    assert message in str(caught.value)


@pytest.mark.spec("V65")
def test_row_may_fill_its_table_to_the_last_slot() -> None:
    lengths([0, 3, 3], [13, 16], tokens=3, capacity=16)
