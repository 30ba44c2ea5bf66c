"""Expected numbers, all of them or every step-th, and how they compare with an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pa_spec.arrays import Float64Array
from pa_spec.conformance.element import Array, decode, encode, storage_dtype
from pa_spec.element_type import ElementType


@dataclass(frozen=True, slots=True)
class Tolerance:
    """absolute + relative * |expected|."""

    absolute: float
    relative: float


EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """numbers: every step-th of an array of this shape in row-major order, from the first on.

    With a step above 1 the others are not NaN, and no more is known of them.
    """

    shape: tuple[int, ...]
    numbers: Float64Array
    step: int = 1

    def difference(
        self,
        actual: Array | None,
        element_type: ElementType,
        tolerance: Tolerance,
        rows: Sequence[int] | None = None,
    ) -> str:
        """Return the first difference, "" when there is none; rows: names of the first axis."""
        dtype = storage_dtype(element_type)
        if (
            not isinstance(actual, np.ndarray)
            or actual.dtype != dtype
            or actual.shape != self.shape
        ):
            found = type(actual).__name__
            if isinstance(actual, np.ndarray):
                found = f"{actual.dtype} {list(actual.shape)}"
            return f": expected an array {dtype} {list(self.shape)}, got {found}"
        given = decode(actual, element_type).reshape(-1)
        # What the element type cannot hold is no difference: both sides are rounded alike.
        rounded = decode(encode(self.numbers, element_type), element_type)
        wrong = np.flatnonzero(_differ(given[:: self.step], rounded, tolerance)) * self.step
        if len(wrong):
            first = int(wrong[0])
            wanted = f"{rounded[first // self.step]:.6g}"
        else:
            wrong = np.flatnonzero(np.isnan(given)) if self.step > 1 else wrong
            if not len(wrong):
                return ""
            first, wanted = int(wrong[0]), "a number"
        place = self._place(first, rows)
        count = f"{len(wrong)} of {given.size} differ"
        return f"{place}: expected {wanted}, got {given[first]:.6g} ({count})"

    def _place(self, index: int, rows: Sequence[int] | None) -> str:
        place = [int(each) for each in np.unravel_index(index, self.shape)]
        return str(place) if rows is None else f", slot {rows[place[0]]}{place[1:]}"


@dataclass(frozen=True, slots=True)
class Written:
    """Slots that a call writes, and what they hold then: numbers [slots, K, D]."""

    slots: tuple[int, ...] = ()
    wanted: Wanted | None = None


def whole(numbers: Float64Array) -> Wanted:
    """Want every number of an array."""
    return Wanted(numbers.shape, numbers.reshape(-1))


def written(slots: Mapping[int, Float64Array]) -> Written:
    """Want every number of these slots [K, D]."""
    return Written(tuple(slots), whole(np.stack(list(slots.values())))) if slots else Written()


def drawn(shape: Sequence[int], salt: int) -> Float64Array:
    """Draw numbers by the formula of vectors/attention_sizes.json, from a flat index of 0 on."""
    index = np.arange(prod(shape), dtype=np.uint64) + np.uint64(salt * 1000003)
    first = index * np.uint64(2654435761) % np.uint64(2**32)
    second = (first ^ (first >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(2**32)
    parts = (second >> np.uint64(16)).astype(np.int64) % 25 - 12
    numbers: Float64Array = parts.reshape(tuple(shape)) / 8
    return numbers


def _differ(given: Float64Array, rounded: Float64Array, tolerance: Tolerance) -> Array:
    with np.errstate(invalid="ignore"):
        distance = np.abs(given - rounded)
        near = distance <= tolerance.absolute + tolerance.relative * np.abs(rounded)
    same = (given == rounded) | (np.isnan(given) & np.isnan(rounded))
    differ: Array = ~(same | (near & np.isfinite(rounded)))
    return differ
