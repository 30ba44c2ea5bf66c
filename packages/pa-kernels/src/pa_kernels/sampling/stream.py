"""Random numbers as a function of a counter: nothing to store, nothing to rewind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pa_spec import Float64Array, Int64Array

# SplitMix64's increment and its finalizer (Steele, Lea, Flood 2014, section 3).
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_UNUSED_BITS = np.uint64(11)
_UNIT = 2.0**-53


def uniform_from_counter(
    seed: Int64Array, sample_index: Int64Array, draw: Int64Array
) -> Float64Array:
    """Return [n] numbers in [0, 1), each a function of its own three integers.

    seed, sample_index, draw: [n] int64, any values. 53 random bits each; equal counters give
    equal numbers on every machine.
    """
    # Each word passes a full finalizer before the next one enters, so that neighbours in any of
    # the three give unrelated numbers and no sum of them can collide.
    state = _mix(seed.astype(np.uint64))
    state = _mix(state ^ sample_index.astype(np.uint64))
    state = _mix(state ^ draw.astype(np.uint64))
    return (state >> _UNUSED_BITS).astype(np.float64) * _UNIT


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Add the increment and spread every bit over the word; a bijection."""
    word = word + _INCREMENT
    word = (word ^ (word >> _SHIFTS[0])) * _MULTIPLIERS[0]
    word = (word ^ (word >> _SHIFTS[1])) * _MULTIPLIERS[1]
    return word ^ (word >> _SHIFTS[2])
