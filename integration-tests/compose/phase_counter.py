"""An observer of one's own: how often each phase of a step was entered."""

from __future__ import annotations

from collections import Counter

from pa_spec import Phase, StepId


class PhaseCounter(Counter[Phase]):
    """Counts phases, and remembers their order within the newest step."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: list[Phase] = []
        self._step = StepId(0)

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Count a phase that begins."""
        if step_id != self._step:
            self._step, self.newest = step_id, []
        self[phase] += 1
        self.newest.append(phase)
