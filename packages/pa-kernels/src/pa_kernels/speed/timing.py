"""Times that can be compared: works take turns, and each round is a sample of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median

_HOPELESS = 2.0
"""Times as long as another form of its kind, in the better of two calls each: noise is less."""

Work = Callable[[int], object]
"""One call, on the layer that the number chooses."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to measure: rounds, seconds of each work in them, and of a work over all rounds.

    A work that has used up its seconds drops out after `fewest` rounds: the slowest must not
    decide how well the fast ones are known.
    """

    rounds: int = 15
    round_s: float = 0.02
    total_s: float = 2.0
    fewest: int = 3


@dataclass(frozen=True, slots=True)
class Samples:
    """Median microseconds of each round, by work; the rounds of all works are the same ones."""

    rounds: Mapping[str, list[float]] = field(default_factory=dict)

    def us(self, name: str) -> float:
        """Return a work's median over the rounds."""
        return median(self.rounds[name])

    def ratio(self, name: str, over: str) -> float:
        """Return how many times as long `name` takes as `over`: the median of rounds' ratios."""
        pairs = zip(self.rounds[name], self.rounds[over], strict=False)
        return median(one / other for one, other in pairs)

    def fastest(self, names: Sequence[str]) -> str:
        """Return which of several works takes the shortest, of those that were timed."""
        return min((name for name in names if name in self.rounds), key=self.us)


def interleave(works: Mapping[str, Work], budget: Budget) -> Samples:
    """Time works in turns, forwards and backwards, each call on the next layer after the last.

    Works named "kind: form" are forms of one kind; hopeless ones are called twice and left out.
    """
    turns = count()
    first_s = {
        name: min(timed(work, turns, 1), timed(work, turns, 1)) / 1e6
        for name, work in works.items()
    }
    kept = [name for name in works if not _is_hopeless(name, first_s)]
    repeats = {
        name: max(1, min(1000, int(budget.round_s / max(first_s[name], 1e-7)))) for name in kept
    }
    spent = dict.fromkeys(kept, 0.0)
    rounds: dict[str, list[float]] = {name: [] for name in kept}
    for index in range(budget.rounds):
        order = kept[:: 1 if index % 2 == 0 else -1]
        for name in order:
            if spent[name] > budget.total_s and index >= budget.fewest:
                continue
            start = time.perf_counter()
            rounds[name].append(timed(works[name], turns, repeats[name]))
            spent[name] += time.perf_counter() - start
    return Samples(rounds)


def _is_hopeless(name: str, first_s: Mapping[str, float]) -> bool:
    """Say whether another form of the same kind was twice as fast."""
    kind = name.partition(": ")[0]
    rivals = [found for other, found in first_s.items() if other.partition(": ")[0] == kind]
    return first_s[name] > _HOPELESS * min(rivals)


def timed(work: Work, turns: count[int], repeats: int) -> float:
    """Return the median microseconds of calls, each on the layer of the next turn."""
    times = []
    for _ in range(repeats):
        turn = next(turns)
        start = time.perf_counter_ns()
        work(turn)
        times.append(time.perf_counter_ns() - start)
    return median(times) / 1e3
