"""Time the operator on a CPU: python -m pa_kernels.bench prints JSON lines, then a table.

Every call works on the next of several layers, whose caches together are over four times as large
as the last-level cache, so keys and values come from memory as they do between the layers of a
model. What a call is compared with takes turns with it in rounds, on the same layers, so that a
busy machine disturbs both. A ratio is the median over the rounds of the ratio of their medians.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import torch

from pa_kernels.speed import (
    Budget,
    Case,
    Machine,
    all_cases,
    measure,
    type_name,
    verdict_table,
    verdicts,
)

_QUICK_BYTES = 80 << 20
"""Caches of a layer in a quick run at most: the medium contexts of the small batches."""


def main(arguments: Sequence[str] | None = None, cases: Iterable[Case] | None = None) -> int:
    """Print the machine and each workload, then a table.

    Return 1 when --check finds a limit missed, or none to judge. Options that are wrong, or that
    leave no workload, end the process with 2.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    there = list(all_cases() if cases is None else cases)
    wanted = [case for case in there if _is_wanted(case, options)]
    if not wanted:
        parser.error(_no_workload(there, options))
    if options.threads:
        torch.set_num_threads(options.threads)
    budget = Budget(options.rounds, options.round_ms / 1e3, options.seconds)
    machine = Machine.here()
    _print_line(asdict(machine))
    measurements = []
    for case in wanted:
        found = measure(case, budget, options.backend)
        measurements.append(found)
        _print_line(found.line)
    sys.stdout.write(f"\n{verdict_table(measurements)}\n")
    warning = machine.warning(os.getloadavg()[0])
    sys.stdout.write(f"{warning}\n" if warning else "")
    judged = [each.is_met for each in verdicts(measurements) if each.is_met is not None]
    if options.check and not judged:
        sys.stdout.write("--check judged nothing: none of these workloads has a limit\n")
    return 1 if options.check and not (judged and all(judged)) else 0


def _print_line(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pa_kernels.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = list(dict.fromkeys(case.kind for case in all_cases()))
    parser.add_argument("--case", choices=kinds, action="append", help="this kind only")
    types = ("float32", "bfloat16", "float16", "int8", "float8_e4m3fn")
    parser.add_argument("--dtype", choices=types, action="append", help="these caches only")
    parser.add_argument(
        "--context", type=_count, action="append", help="this many tokens a row only"
    )
    parser.add_argument("--rows", type=_count, action="append", help="this batch only")
    parser.add_argument("--quick", action="store_true", help="leave out layers over 80 MiB")
    parser.add_argument("--check", action="store_true", help="end with 1 unless limits are met")
    parser.add_argument("--backend", default="cpu", help="the one to time")
    parser.add_argument("--threads", type=_count, help="without it as torch decides")
    parser.add_argument("--rounds", type=_count, default=15, help="samples of each work")
    parser.add_argument("--round-ms", type=_time, default=20.0, help="calls of a sample take this")
    parser.add_argument("--seconds", type=_time, default=2.0, help="of one work, then it drops out")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"expected a whole number of at least 1, got {text}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _time(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return value


def _is_wanted(case: Case, options: argparse.Namespace) -> bool:
    wanted = (
        (options.case, case.kind),
        (options.dtype, type_name(case.cache_dtype or case.dtype)),
        (options.context, case.context),
        (options.rows, case.rows),
    )
    is_small = not options.quick or case.pool_bytes <= _QUICK_BYTES
    return is_small and all(not chosen or each in chosen for chosen, each in wanted)


def _no_workload(there: Iterable[Case], options: argparse.Namespace) -> str:
    """Say which filters leave nothing, and what each could choose."""
    chosen = {"case": options.case, "dtype": options.dtype}
    chosen |= {"context": options.context, "rows": options.rows}
    filters = [f"--{name} {each}" for name, values in chosen.items() for each in values or ()]
    filters += ["--quick"] if options.quick else []
    found: dict[tuple[str, str], dict[str, None]] = {}
    for case in there:
        key = case.kind, type_name(case.cache_dtype or case.dtype)
        found.setdefault(key, {})[f"{case.rows} x {case.context}"] = None
    alike: dict[str, list[str]] = {}
    for (kind, dtype), sizes in found.items():
        alike.setdefault(", ".join(sizes), []).append(f"{kind} {dtype}")
    known = [f"{', '.join(kinds)} ({sizes})" for sizes, kinds in alike.items()]
    return (
        f"no workload for {' '.join(filters)}; there are, with rows x context: {'; '.join(known)}"
    )


if __name__ == "__main__":
    sys.exit(main())
