"""Promises of the packing arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_scheduler import bucket_columns


@pytest.mark.spec("E122")
@pytest.mark.parametrize(
    ("tokens", "columns"),
    [(0, 8), (1, 8), (128, 8), (129, 16), (256, 16), (257, 32), (32_768, 2048)],
)
def test_columns_come_in_powers_of_two_from_eight(tokens: int, columns: int) -> None:
    assert bucket_columns(tokens, 16) == columns


@pytest.mark.spec("E122")
def test_columns_are_cut_at_the_configured_maximum() -> None:
    assert bucket_columns(1000, 16, max_columns=70) == 64
    assert bucket_columns(1100, 16, max_columns=70) == 70
    assert bucket_columns(1, 16, max_columns=3) == 3


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from([16, 32, 256]))
def test_columns_hold_the_sequence_and_never_shrink_as_it_grows(
    tokens: int, more: int, block_size: int
) -> None:
    columns = bucket_columns(tokens, block_size)

    assert columns * block_size >= tokens
    assert columns <= bucket_columns(tokens + more, block_size)
