"""How many threads a step of few rows is worth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

FEW_ROWS = 2
"""Measured on two cores with sleeping threads, a step of one row: 13.2 ms with one thread and 17.8
with two in bfloat16, 21.5 and 23.2 in float32; at four rows float32 is better off with two."""


def threads_sleep() -> bool:
    """Whether OpenMP's idle threads sleep, so that each product has to wake them first."""
    passive = os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
    return passive or os.environ.get("GOMP_SPINCOUNT") == "0"


@contextmanager
def threads_for(num_rows: int) -> Iterator[None]:
    """Run the block with one thread when waking a second one costs more than it brings.

    num_rows: packed tokens of the step. Only where idle threads sleep; restores the setting.
    """
    before = torch.get_num_threads()
    if num_rows > FEW_ROWS or before == 1 or not threads_sleep():
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
