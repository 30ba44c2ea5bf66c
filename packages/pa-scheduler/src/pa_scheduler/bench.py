"""Time `order` plus `pack`: `python -m pa_scheduler.bench` prints one JSON object a line."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pa_spec import Admission, ResidentView, StepLimits, WaitingView

from pa_scheduler.decode_first import DecodeFirstPolicy

_CONTEXT_TOKENS = 512
_PROMPT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of step, with the admission that a cache with room for everything would give."""

    name: str
    residents: ResidentView
    waiting: WaitingView
    admission: Admission
    limits: StepLimits
    policy: DecodeFirstPolicy

    def step(self) -> None:
        """Order and pack once."""
        candidates = self.policy.order(self.residents, self.waiting)
        self.policy.pack(candidates, self.admission, self.limits)


def decode_case(rows: int) -> Case:
    """Build a step in which every row decodes."""
    return _case("decode", rows, prefills=0, waiting=0)


def mixed_case(rows: int) -> Case:
    """Build a step in which a quarter of the rows reads its prompt."""
    return _case("mixed", rows, prefills=rows // 4, waiting=0)


def admission_case(rows: int) -> Case:
    """Build a step that admits a quarter of its rows."""
    return _case("admission", rows, prefills=0, waiting=rows // 4)


def _case(name: str, rows: int, prefills: int, waiting: int) -> Case:
    num_residents = rows - waiting
    resident = np.arange(num_residents, dtype=np.int32)
    committed = np.full(num_residents, _CONTEXT_TOKENS, np.int64)
    sequence = committed + 1
    sequence[:prefills] += _PROMPT_TOKENS
    prompt = committed - 100
    prompt[:prefills] = sequence[:prefills]
    waiting_tokens = np.full(waiting, _PROMPT_TOKENS, np.int64)
    free = np.arange(num_residents, rows, dtype=np.int32)
    nothing = np.zeros(0, np.intp)
    return Case(
        name,
        ResidentView(
            resident, resident.astype(np.int64), committed, sequence, prompt, sequence + 100
        ),
        WaitingView(free.astype(np.int64), waiting_tokens, waiting_tokens + 100, free),
        Admission(np.arange(rows), np.concatenate([resident, free]), nothing, nothing),
        StepLimits(rows, max(2048, 2 * rows)),
        DecodeFirstPolicy(16),
    )


def _microseconds(step: Callable[[], None], steps: int) -> float:
    """Return the median of `steps` single steps, best of five runs."""
    medians = []
    for _ in range(5):
        times = []
        for _ in range(steps):
            start = time.perf_counter_ns()
            step()
            times.append(time.perf_counter_ns() - start)
        medians.append(statistics.median(times))
    return min(medians) / 1000


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the time of a step for each case and number of rows."""
    parser = argparse.ArgumentParser(prog="python -m pa_scheduler.bench", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 256, 1024])
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args(arguments)
    for build in (decode_case, mixed_case, admission_case):
        for rows in options.rows:
            case = build(rows)
            line = {
                "case": case.name,
                "rows": rows,
                "us_per_step": round(_microseconds(case.step, options.steps), 2),
            }
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
