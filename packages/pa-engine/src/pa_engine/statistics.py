"""Counts and times of an engine's steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pa_spec import Outcome


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Totals since the engine was made.

    steps: committed steps; rows: their rows together. prompt_tokens, generated_tokens: committed.
    host_seconds: time inside `run` that was neither forward nor sampling, over committed steps;
    execution_seconds: forward and sampling. outcomes: executing calls of `run` by outcome.
    deferred_rows: rows that a plan had to leave out, also when others ran (E90).
    peak_blocks_used: most blocks reserved or committed at once, of total_blocks.
    """

    steps: int
    rows: int
    prompt_tokens: int
    generated_tokens: int
    host_seconds: float
    execution_seconds: float
    deferred_rows: int
    peak_blocks_used: int
    total_blocks: int
    outcomes: Mapping[Outcome, int]

    @property
    def mean_rows(self) -> float:
        """Rows of an average committed step."""
        return self.rows / self.steps if self.steps else 0.0

    @property
    def host_us_per_step(self) -> float:
        """Host microseconds of an average committed step."""
        return self.host_seconds / self.steps * 1e6 if self.steps else 0.0

    @property
    def host_share(self) -> float:
        """Host time as a share of the time of committed steps, 0 to 1."""
        total = self.host_seconds + self.execution_seconds
        return self.host_seconds / total if total else 0.0


@dataclass(slots=True)
class StatisticsRecorder:
    """The counters behind EngineStatistics; a step adds to them after it has published."""

    steps: int = 0
    rows: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    host_ns: int = 0
    execution_ns: int = 0
    deferred_rows: int = 0
    peak_blocks_used: int = 0
    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))

    def read(self, total_blocks: int) -> EngineStatistics:
        """Return the totals as a value."""
        return EngineStatistics(
            steps=self.steps,
            rows=self.rows,
            prompt_tokens=self.prompt_tokens,
            generated_tokens=self.generated_tokens,
            host_seconds=self.host_ns * 1e-9,
            execution_seconds=self.execution_ns * 1e-9,
            deferred_rows=self.deferred_rows,
            peak_blocks_used=self.peak_blocks_used,
            total_blocks=total_blocks,
            outcomes=dict(self.outcomes),
        )
