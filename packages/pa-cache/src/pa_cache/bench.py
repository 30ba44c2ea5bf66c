"""Time the cache's part of a step: `python -m pa_cache.bench` prints one JSON object a line.

What a policy does, making candidates and plans, is not timed. Sequences are staggered, so that
in every step one row of sixteen enters a new block.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import final

import numpy as np
from pa_spec import Candidates, Int64Array, InvariantViolation, StepId, StepLimits, StepPlan

from pa_cache.block_table import CacheGeometry
from pa_cache.paged_cache import PagedCacheManager

BLOCK_SIZE = 16
PHASES = ("plan_admission", "reserve", "validate", "publish")
RUNS = 5


@final
class DecodeBench:
    """A cache under so many sequences that decode one token in each step.

    columns: table columns, 0 = as many as `steps` need. Raises InvariantViolation when a step is
    not valid.
    """

    def __init__(self, rows: int, context_tokens: int, steps: int, columns: int = 0) -> None:
        longest = context_tokens + BLOCK_SIZE + steps
        blocks = -(-longest // BLOCK_SIZE)
        geometry = CacheGeometry(rows * blocks, BLOCK_SIZE, rows, max(columns, blocks))
        self.cache = PagedCacheManager(geometry)
        self._limits = StepLimits(rows, rows)
        self._resident = np.arange(rows, dtype=np.int32)
        self._committed = np.zeros(rows, np.int64)
        self._step_id = 0
        self._rows = rows
        self.step(context_tokens + np.arange(rows, dtype=np.int64) % BLOCK_SIZE)

    def step(self, tokens: Int64Array | None = None) -> list[int]:
        """Run one step of one token a row; returns the nanoseconds of each of PHASES."""
        given = np.ones(self._rows, np.int64) if tokens is None else tokens
        plan = self._plan(given)
        candidates = self._candidates(given)
        cache, clock = self.cache, time.perf_counter_ns
        self._step_id += 1
        marks = [clock()]
        cache.plan_admission(candidates, self._limits)
        marks.append(clock())
        reservation = cache.reserve(StepId(self._step_id), plan)
        marks.append(clock())
        found = reservation.validate()
        marks.append(clock())
        if found:
            raise InvariantViolation(found)
        reservation.prepare()
        reservation.publish()
        cache.end_step(StepId(self._step_id))
        marks.append(clock())
        self._committed = plan.target_tokens
        return [after - before for before, after in itertools.pairwise(marks)]

    def _candidates(self, tokens: Int64Array) -> Candidates:
        sequence = self._committed + tokens
        is_new = self._committed == 0
        return Candidates(
            resident=np.where(is_new, -1, self._resident).astype(np.int32),
            request=self._resident.astype(np.int64),
            committed_tokens=self._committed,
            sequence_tokens=sequence,
            limit_tokens=sequence,
            is_prefill=is_new,
            free_resident=self._resident[is_new],
        )

    def _plan(self, tokens: Int64Array) -> StepPlan:
        is_new = self._committed == 0
        places = np.arange(self._rows + 1, dtype=np.int32)
        return StepPlan(
            request=self._resident.astype(np.int64),
            resident=self._resident,
            rank=places[:-1],
            tokens=tokens.astype(np.int32),
            packed_offset=(np.cumsum(tokens) - tokens).astype(np.int32),
            past_tokens=self._committed,
            target_tokens=self._committed + tokens,
            is_prefill=is_new,
            is_new=is_new,
            drafts=None,
            logits_rows=places[:-1],
            logits_offsets=places,
            deferred=np.zeros(0, np.int64),
            unserviceable=np.zeros(0, np.int64),
            total_tokens=int(tokens.sum()),
            table_columns=self.cache.geometry.table_columns,
            padded_rows=self._rows,
            capture_key=0,
            sequence_tokens=self._committed + tokens,
            limit_tokens=self._committed + tokens,
        )


def measure(rows: int, context_tokens: int, steps: int) -> dict[str, object]:
    """Return the median microseconds of a step and of its phases, of the best of RUNS runs."""
    bench = DecodeBench(rows, context_tokens, steps * RUNS)
    runs = []
    for _ in range(RUNS):
        times = [bench.step() for _ in range(steps)]
        runs.append([statistics.median(each) / 1000 for each in zip(*times, strict=True)])
    best = min(runs, key=sum)
    line: dict[str, object] = {"case": "decode", "rows": rows, "context_tokens": context_tokens}
    line["us_per_step"] = round(sum(best), 2)
    return line | {name: round(value, 2) for name, value in zip(PHASES, best, strict=True)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the time of a step for each number of rows and each context."""
    parser = argparse.ArgumentParser(prog="python -m pa_cache.bench", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 256, 1024])
    parser.add_argument("--context-tokens", type=int, nargs="+", default=[512, 32768])
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args(arguments)
    for rows in options.rows:
        for context_tokens in options.context_tokens:
            line = measure(rows, context_tokens, options.steps)
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
