"""The slices of committed state that a step touches, copied before it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pa_spec import IndexArray, Int32Array, Int64Array, same

from pa_engine.residents import ResidentColumns


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Touched slices as they were before the step, in the order of the plan's rows (E66).

    rows: [B] the plan's residents as numpy indexes, which are several times cheaper than int32.
    A step changes nothing committed before it publishes, so there is nothing to put back: results
    are computed from these values, and publication checks that they still hold. Later kinds of
    state (grammar cursors) keep here what they must restore.
    """

    rows: IndexArray
    sequence_tokens: Int64Array
    committed_tokens: Int64Array
    turn_generated: Int64Array
    draws: Int64Array

    def holds(self, columns: ResidentColumns) -> bool:
        """Whether the rows still are as they were."""
        rows = self.rows
        return (
            same(columns.sequence_tokens[rows], self.sequence_tokens)
            and same(columns.committed_tokens[rows], self.committed_tokens)
            and same(columns.turn_generated[rows], self.turn_generated)
            and same(columns.draws[rows], self.draws)
        )


def take_checkpoint(columns: ResidentColumns, resident: Int32Array) -> Checkpoint:
    """Copy the touched slices."""
    rows = resident.astype(np.intp)
    return Checkpoint(
        rows,
        columns.sequence_tokens[rows],
        columns.committed_tokens[rows],
        columns.turn_generated[rows],
        columns.draws[rows],
    )
