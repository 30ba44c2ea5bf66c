"""Find the first place where arrays differ, repeat or are true, cheaply when there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pa_spec import BoolArray, IndexArray, Int32Array, any_true, same


def first_true(mask: BoolArray) -> int | None:
    """Return the first index at which a one-dimensional mask is true, None if nowhere."""
    return int(mask.argmax()) if any_true(mask) else None


def first_difference(left: NDArray[Any], right: NDArray[Any]) -> int | None:
    """Return the first index at which two arrays differ, None when they are equal.

    Arrays of different lengths differ where the shorter one ends, if not before.
    """
    if same(left, right):
        return None
    if len(left) != len(right):
        shorter = min(len(left), len(right))
        at = first_difference(left[:shorter], right[:shorter])
        return shorter if at is None else at
    return first_true(left != right)


def first_repeat(indices: IndexArray | Int32Array, mark: IndexArray) -> int | None:
    """Return the place of an index that occurs again later, None when all are distinct.

    mark: scratch that every index is valid in; overwritten there.
    """
    places = np.arange(len(indices))
    mark[indices] = places
    return first_difference(mark.take(indices), places)
