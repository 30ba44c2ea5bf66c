"""A fixed piece of work that says how fast a machine runs Python and small numpy calls."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

_NUM_PASSES = 2000
_NUM_ROUNDS = 9


def calibrate_ns() -> float:
    """Return the nanoseconds of one pass: a dictionary store and one add over 256 integers.

    The best of several medians, so that figures of two machines, or of one machine at two times,
    can be set in relation.
    """
    return min(_median_pass_ns() for _ in range(_NUM_ROUNDS))


def _median_pass_ns() -> float:
    source = np.arange(256, dtype=np.int64)
    target = np.empty_like(source)
    stored: dict[int, int] = {}
    times = []
    for number in range(_NUM_PASSES):
        start = time.perf_counter_ns()
        stored[number & 63] = number
        np.add(source, number, out=target)
        times.append(time.perf_counter_ns() - start)
    return float(median(times))
