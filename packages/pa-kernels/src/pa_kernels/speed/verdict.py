"""Figures against their limits, for people and for a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pa_kernels.speed.measurement import Measurement

_SHOWN = ("of_read", "over_gather", "over_unquantized", "over_dense", "run_us", "direct_us")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure of one workload. is_met: None where no limit stands, False where one is missed."""

    workload: str
    figure: str
    found: str
    limit: str
    is_met: bool | None

    @property
    def word(self) -> str:
        """How the table calls it."""
        return {None: "", True: "met", False: "SHORT"}[self.is_met]


def verdicts(measurements: Sequence[Measurement]) -> Iterator[Verdict]:
    """Yield every figure that is a comparison; a limited one that was not measured is short."""
    for each in measurements:
        case = each.case
        limits = {limit.figure: limit for limit in case.limits}
        if each.skipped and not limits:
            yield Verdict(case.label, "", each.skipped, "", None)
        for figure in _SHOWN:
            limit = limits.get(figure)
            text = "" if limit is None else f"{'<=' if limit.is_most else '>='} {limit.value:g}"
            if each.skipped and limit is not None:
                yield Verdict(case.label, figure, each.skipped, text, is_met=False)
            elif figure in each.figures:
                value = each.figures[figure]
                is_met = None if limit is None else limit.is_met(value)
                found = f"{value:.2f}"
                if figure in _SHOWN[:4]:
                    group = figure.partition("_")[2]
                    found += f" ({each.fastest[group]})" if group in each.fastest else ""
                yield Verdict(case.label, figure, found, text, is_met)


def verdict_table(measurements: Sequence[Measurement]) -> str:
    """Return all verdicts as a table with aligned columns, and how many limits are met."""
    found = list(verdicts(measurements))
    heading = ("workload", "figure", "found", "limit", "")
    rows = [heading, *((v.workload, v.figure, v.found, v.limit, v.word) for v in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    limited = [each for each in found if each.is_met is not None]
    met = sum(each.is_met is True for each in limited)
    return "\n".join([*lines, f"{met} of {len(limited)} limits are met"])
