"""The slices of committed state that a step touches, copied before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec import Int32Array, Int64Array

from pa_engine.residents import ResidentColumns


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Touched slices as they were before the step, in the order of the plan's rows (E66).

    A step changes nothing committed before it publishes, so there is nothing to put back: results
    are computed from these values, and publication checks that they still hold. Later kinds of
    state (grammar cursors) keep here what they must restore.
    """

    sequence_tokens: Int64Array
    committed_tokens: Int64Array
    turn_generated: Int64Array
    draws: Int64Array

    def holds(self, columns: ResidentColumns, rows: Int32Array) -> bool:
        """Whether the rows still are as they were."""
        return (
            same(columns.sequence_tokens[rows], self.sequence_tokens)
            and same(columns.committed_tokens[rows], self.committed_tokens)
            and same(columns.turn_generated[rows], self.turn_generated)
            and same(columns.draws[rows], self.draws)
        )


def take_checkpoint(columns: ResidentColumns, rows: Int32Array) -> Checkpoint:
    """Copy the touched slices."""
    return Checkpoint(
        columns.sequence_tokens[rows],
        columns.committed_tokens[rows],
        columns.turn_generated[rows],
        columns.draws[rows],
    )


def same(left: Int32Array | Int64Array, right: Int32Array | Int64Array) -> bool:
    """Whether two integer arrays are equal; bytes compare in a fraction of an array's `all`."""
    return left.tobytes() == right.tobytes()
