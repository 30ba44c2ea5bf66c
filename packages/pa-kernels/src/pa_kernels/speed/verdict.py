"""Figures against their limits, for people and for a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pa_kernels.speed.case import Limit
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
        limits = {limit.figure: limit for limit in each.case.limits}
        if each.skipped and not limits:
            yield Verdict(each.case.label, "", each.skipped, "", None)
        # A limit on any other figure is judged as well: none is lost because nobody shows it.
        for figure in dict.fromkeys((*_SHOWN, *limits)):
            if figure in limits or (figure in each.figures and not each.skipped):
                yield _verdict(each, figure, limits.get(figure))


def _verdict(measurement: Measurement, figure: str, limit: Limit | None) -> Verdict:
    label = measurement.case.label
    text = "" if limit is None else f"{'<=' if limit.is_most else '>='} {limit.value:g}"
    if measurement.skipped or figure not in measurement.figures:
        return Verdict(label, figure, measurement.skipped or "not measured", text, is_met=False)
    value = measurement.figures[figure]
    found = f"{value:.2f}"
    group = figure.partition("_")[2]
    if figure in _SHOWN[:4] and group in measurement.fastest:
        found += f" ({measurement.fastest[group]})"
    return Verdict(label, figure, found, text, None if limit is None else limit.is_met(value))


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
