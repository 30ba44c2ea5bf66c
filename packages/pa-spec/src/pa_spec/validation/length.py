"""The rule about lengths, for callers whose lengths are on the host."""

from __future__ import annotations

import numpy as np

from pa_spec.arrays import Int32Array
from pa_spec.contract.rule import rules


def check_lengths(
    cumulative_sequence_length: Int32Array, past_seqlens: Int32Array, tokens: int, capacity: int
) -> None:
    """Check lengths on the host: prefix sums from 0 to T, and every token inside the table.

    cumulative_sequence_length: [B+1]. past_seqlens: [B]. tokens: T. capacity: positions that a row
    of the block table addresses (columns * block_size).

    Raises ContractViolation (V65).
    """
    rule = rules()["V65"]
    # int64: differences and sums of int32 lengths may pass the int32 range.
    new = np.diff(cumulative_sequence_length.astype(np.int64))
    name = "cumulative_sequence_length"
    if cumulative_sequence_length[0] != 0:
        raise rule.violation(name, f"{cumulative_sequence_length[0]}", "first")
    if new.min() < 0:
        row = int(new.argmin())
        raise rule.violation(name, f"{new[row]} tokens in row {row}", "order")
    if cumulative_sequence_length[-1] != tokens:
        raise rule.violation(name, f"{cumulative_sequence_length[-1]}", "last", T=tokens)
    if past_seqlens.min() < 0:
        row = int(past_seqlens.argmin())
        raise rule.violation("past_seqlens", f"{past_seqlens[row]} in row {row}", "past")
    total = past_seqlens + new
    if total.max() > capacity:
        row = int(total.argmax())
        found = f"{past_seqlens[row]} + {new[row]} in row {row}"
        raise rule.violation("past_seqlens", found, "capacity", capacity=capacity)
