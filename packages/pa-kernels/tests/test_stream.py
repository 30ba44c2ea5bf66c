"""The counter-based stream: uniform, unrelated between neighbours, and the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from pa_kernels import uniform_from_counter
from pa_spec import Float64Array

DRAWS = 100_000

PINNED = [
    "0x1.1c13ade1c7e5cp-3",
    "0x1.79953c24b633cp-3",
    "0x1.631405e8db1b0p-1",
    "0x1.bceaf7b4e8ef0p-2",
    "0x1.e868440f5f7adp-1",
]


def stream(axis: str, start: int = 0, count: int = DRAWS) -> Float64Array:
    """Numbers along one of the three integers, the others fixed."""
    values = {name: np.full(count, 7, dtype=np.int64) for name in ("seed", "sample_index", "draw")}
    values[axis] = np.arange(start, start + count, dtype=np.int64)
    return uniform_from_counter(**values)


@pytest.mark.spec("E75")
def test_equal_counters_give_pinned_numbers() -> None:
    seed = np.array([0, 0, 1, -1, 2**63 - 1], dtype=np.int64)
    sample_index = np.array([0, 0, 0, 1, 5], dtype=np.int64)
    draw = np.array([0, 1, 0, 2, 10**12], dtype=np.int64)

    numbers = uniform_from_counter(seed, sample_index, draw)

    assert [number.hex() for number in numbers.tolist()] == PINNED


@pytest.mark.parametrize("axis", ["seed", "sample_index", "draw"])
def test_every_axis_is_uniform(axis: str) -> None:
    counts, _ = np.histogram(stream(axis), bins=100, range=(0, 1))

    chi_square = float(((counts - DRAWS / 100) ** 2 / (DRAWS / 100)).sum())

    # 99 degrees of freedom: mean 99, standard deviation 14; five of them on either side.
    assert 29 < chi_square < 169


@pytest.mark.parametrize("axis", ["seed", "sample_index", "draw"])
def test_neighbours_are_unrelated(axis: str) -> None:
    numbers = stream(axis, start=-50)
    pairs, _, _ = np.histogram2d(numbers[:-1], numbers[1:], bins=10, range=((0, 1), (0, 1)))
    chi_square = float(((pairs - DRAWS / 100) ** 2 / (DRAWS / 100)).sum())
    correlation = abs(float(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]))

    assert chi_square < 169
    assert correlation < 5 / DRAWS**0.5


def test_streams_of_neighbouring_seeds_do_not_overlap() -> None:
    first = uniform_from_counter(
        np.zeros(DRAWS, np.int64), np.zeros(DRAWS, np.int64), np.arange(DRAWS)
    )
    second = uniform_from_counter(
        np.ones(DRAWS, np.int64), np.zeros(DRAWS, np.int64), np.arange(DRAWS)
    )

    assert len(np.intersect1d(first, second)) < 3


def test_numbers_lie_in_the_half_open_interval() -> None:
    numbers = stream("draw")
    assert numbers.dtype == np.float64
    assert numbers.min() >= 0
    assert numbers.max() < 1
