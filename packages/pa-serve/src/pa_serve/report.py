"""Step statistics of a run, as a record for programs and as a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from pa_engine import EngineStatistics


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run on one engine cost.

    seconds: from the first prompt's submission to the last result. attention_backends: names of
    the operator's backends that computed it.
    """

    statistics: EngineStatistics
    seconds: float
    attention_backends: tuple[str, ...]

    def as_record(self) -> dict[str, object]:
        """Return plain values under stable names."""
        statistics = self.statistics
        return {
            "seconds": self.seconds,
            "steps": statistics.steps,
            "mean_rows": statistics.mean_rows,
            "prompt_tokens": statistics.prompt_tokens,
            "generated_tokens": statistics.generated_tokens,
            "prompt_tokens_per_s": self._rate(statistics.prompt_tokens),
            "generated_tokens_per_s": self._rate(statistics.generated_tokens),
            "host_us_per_step": statistics.host_us_per_step,
            "host_share": statistics.host_share,
            "deferred_rows": statistics.deferred_rows,
            "peak_blocks_used": statistics.peak_blocks_used,
            "total_blocks": statistics.total_blocks,
            "attention_backends": list(self.attention_backends),
            "outcomes": {
                outcome.value: count for outcome, count in statistics.outcomes.items() if count
            },
        }

    def print_table(self) -> None:
        """Print what matters to a reader to standard output."""
        from rich.console import Console
        from rich.table import Table

        statistics = self.statistics
        table = Table("step statistics", "", show_lines=False)
        table.columns[1].justify = "right"
        for label, value in (
            ("steps", f"{statistics.steps}"),
            ("mean rows a step", f"{statistics.mean_rows:.2f}"),
            ("prompt tokens a second", f"{self._rate(statistics.prompt_tokens):.1f}"),
            ("generated tokens a second", f"{self._rate(statistics.generated_tokens):.1f}"),
            ("host time a step", f"{statistics.host_us_per_step:.0f} µs"),
            ("host share of step time", f"{statistics.host_share:.2%}"),
            ("peak blocks used", f"{statistics.peak_blocks_used} of {statistics.total_blocks}"),
            ("attention backend", ", ".join(self.attention_backends) or "none"),
        ):
            table.add_row(label, value)
        Console().print(table)

    def _rate(self, tokens: int) -> float:
        return tokens / self.seconds if self.seconds else 0.0
