"""`pa bench host`: what a step costs the host, on the public engine without a model."""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from pa_serve.argument import integer, integer_list, word_list
from pa_serve.exit_status import ExitStatus

if TYPE_CHECKING:
    from pa_serve.bench.workload import HostCase, Workload

DESCRIPTION = """\
Measure the host time of a step: the public Engine with the null executor, which packs a step but
runs no model. Plan, reservation, checks, packing, observer, publication and events read as columns
are included. The figure is the median of --steps steps, of the best of --rounds rounds, with the
garbage collector on.

decode: every row decodes, at --context tokens. mixed: one row in eight prefills 16 tokens a step.
churn: requests of 32 prompt and at most 64 new tokens; at least one ends and begins in each step
(the figure includes the calls that close and begin them). Further contexts after the first are
measured for decode at 256 rows, or the nearest of --rows. calls: Python and C functions called in
a decode step without admissions or finishes. calibration: a fixed loop over a dictionary and 256
numpy integers, to set the figures of two machines in relation."""

CASES = ("decode", "mixed", "churn")
_CONTEXT_ROWS = 256
_CALL_STEPS = 17  # one more than a block has slots: a block crossing is among them
_OBJECT_STEPS = 50


@dataclass(frozen=True, slots=True)
class HostFigure:
    """What one case came to.

    us_per_step: events read as columns. us_objects: to build a step's events as objects besides.
    calls: of a decode step, None in other cases. calibration_ns: one pass of the fixed loop.
    """

    case: str
    rows: int
    context: int
    us_per_step: float
    us_objects: float
    calls: int | None
    steps: int
    rounds: int
    calibration_ns: float
    engine_version: str
    gc_enabled: bool

    def as_json(self) -> str:
        """Return the figure as one object."""
        return json.dumps(asdict(self))

    def as_row(self) -> str:
        """Return the figure as one row of the table that `run` prints."""
        calls = "" if self.calls is None else str(self.calls)
        return (
            f"{self.case:7}{self.rows:6}{self.context:9}{self.us_per_step:11.1f}"
            f"{self.us_objects:15.1f}{calls:>7}"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--rows",
        type=integer_list(1, 65536),
        default=(16, 64, 256, 1024),
        metavar="N,...",
        help="rows of a step (default: 16,64,256,1024)",
    )
    parser.add_argument(
        "--cases",
        type=word_list(CASES),
        default=CASES,
        metavar="NAME,...",
        help="(default: decode,mixed,churn)",
    )
    parser.add_argument(
        "--context",
        type=integer_list(1, 1 << 20),
        default=(512, 32768),
        metavar="N,...",
        help="tokens before the measured steps (default: 512,32768)",
    )
    parser.add_argument(
        "--steps",
        type=integer(1, 1 << 20),
        default=1000,
        metavar="N",
        help="steps of a round (default: 1000)",
    )
    parser.add_argument(
        "--rounds",
        type=integer(1, 1000),
        default=5,
        metavar="N",
        help="rounds, of which the best counts (default: 5)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Measure and print."""
    from pa_serve.bench.calibration import calibrate_ns

    calibration_ns = calibrate_ns()
    if not arguments.json:
        print(f"calibration loop: {calibration_ns:.0f} ns a pass")
        print("case     rows  context  µs a step  µs of objects  calls")
    for group in _case_groups(arguments):
        for figure in _measure(group, arguments.rounds, calibration_ns):
            print(figure.as_json() if arguments.json else figure.as_row(), flush=True)
    return ExitStatus.SERVED


def _case_groups(arguments: argparse.Namespace) -> Iterator[list[HostCase]]:
    """Yield the cases; those of one group are measured in turns, so that noise hits all alike."""
    from pa_serve.bench.workload import HostCase

    first, *others = arguments.context
    nearest = min(arguments.rows, key=lambda rows: abs(rows - _CONTEXT_ROWS))
    for name in arguments.cases:
        for rows in arguments.rows:
            is_context_row = name == "decode" and rows == nearest
            contexts = (first, *others) if is_context_row else (first,)
            yield [HostCase(name, rows, context, arguments.steps) for context in contexts]


def _measure(
    group: Sequence[HostCase], num_rounds: int, calibration_ns: float
) -> Iterator[HostFigure]:
    from pa_engine import __version__

    from pa_serve.bench.workload import Workload

    rounds: list[list[tuple[float, float]]] = [[] for _ in group]
    calls: list[int | None] = [None for _ in group]
    for _ in range(num_rounds):
        for place, case in enumerate(group):
            workload = Workload(case)
            if not gc.isenabled():
                raise RuntimeError("the garbage collector is off: the figures would be flattered")
            gc.collect()
            rounds[place].append(_one_round(workload, case.steps))
            if case.name == "decode":
                calls[place] = max(workload.counted_calls() for _ in range(_CALL_STEPS))
            workload.close()
    for place, case in enumerate(group):
        yield HostFigure(
            case=case.name,
            rows=case.rows,
            context=case.prompt_tokens,
            us_per_step=min(step for step, _ in rounds[place]) / 1e3,
            us_objects=min(objects for _, objects in rounds[place]) / 1e3,
            calls=calls[place],
            steps=case.steps,
            rounds=num_rounds,
            calibration_ns=calibration_ns,
            engine_version=__version__,
            gc_enabled=gc.isenabled(),
        )


def _one_round(workload: Workload, steps: int) -> tuple[float, float]:
    """Return the median nanoseconds of a step, and of building a step's events as objects."""
    step_ns = median(workload.timed_step() for _ in range(steps))
    objects_ns = median(workload.timed_objects() for _ in range(min(steps, _OBJECT_STEPS)))
    return float(step_ns), float(objects_ns)
