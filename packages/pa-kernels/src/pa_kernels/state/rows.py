"""Lengths and row numbers of a call: refusals by value, and the states that rows start from."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from pa_spec import InputUnusable
from torch import Tensor

from pa_kernels.state.inputs import StatePool


def flatten_banks(pool: StatePool | None, row_axes: int) -> StatePool | None:
    """View a pool's states as [rows, *row], whose rows the numbers count."""
    if pool is None:
        return None
    shape = pool.states.shape
    leading = len(shape) - row_axes
    states = pool.states.view(math.prod(shape[:leading]), *shape[leading:])
    return replace(pool, states=states)


def check_values(boundaries: Tensor, tokens: int, pool: StatePool | None) -> None:
    """Raise InputUnusable for lengths or row numbers that address nothing; changes nothing.

    boundaries: [B+1]. tokens: T. pool: with flat states. O(B), and reads on the host.
    """
    name, ends = "cumulative_sequence_length", boundaries.tolist()
    if ends[0] != 0:
        raise InputUnusable(name, f"begins with {ends[0]}", "a first entry of 0")
    for row, (begin, end) in enumerate(pairwise(ends)):
        if end < begin:
            raise InputUnusable(name, f"row {row} ends at {end} before {begin}", "ascending ends")
    if ends[-1] != tokens:
        raise InputUnusable(name, f"ends with {ends[-1]}", f"a last entry of T={tokens}")
    if pool is not None:
        _check_numbers("read_rows", pool.read_rows.tolist(), pool.states.shape[0])
        _check_numbers("write_rows", pool.write_rows.tolist(), pool.states.shape[0])
        _check_distinct(pool.write_rows.tolist())


def _check_numbers(name: str, numbers: list[int], rows: int) -> None:
    for row, number in enumerate(numbers):
        if not -1 <= number < rows:
            allowed = f"-1, or one of the pool's {rows} rows"
            raise InputUnusable(name, f"row {row} has {number}", allowed)


def _check_distinct(numbers: list[int]) -> None:
    seen: dict[int, int] = {}
    for row, number in enumerate(numbers):
        if number >= 0 and seen.setdefault(number, row) != row:
            problem = f"rows {seen[number]} and {row} both have {number}"
            raise InputUnusable("write_rows", problem, "different rows of the pool, or -1")


def starting_states(initial_state: Tensor | None, pool: StatePool | None, zeros: Tensor) -> Tensor:
    """Return copies of the states that a call's rows start from, like zeros: [B, *row]."""
    if initial_state is not None:
        return initial_state.to(zeros.dtype, copy=True)
    if pool is None or pool.states.shape[0] == 0:
        return zeros
    is_kept = (pool.read_rows >= 0).view(-1, *[1] * (zeros.dim() - 1))
    # A choice instead of a product: a NaN in row 0 must not reach a row that starts from zeros.
    return pool.states[pool.read_rows.clamp(min=0).long()].to(zeros.dtype).where(is_kept, zeros)


def keep_states(pool: StatePool, states: Tensor) -> None:
    """Write the rows' states, [B, *row], to where the pool wants them."""
    is_kept = pool.write_rows >= 0
    pool.states[pool.write_rows[is_kept].long()] = states[is_kept].to(pool.states.dtype)
