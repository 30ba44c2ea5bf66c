"""The input ids that the host supplies for a step."""

from __future__ import annotations

import numpy as np
from pa_spec import NO_TOKEN, IndexArray, Int32Array, StepPlan, any_true

from pa_engine.residents import ResidentTable


def host_ids(residents: ResidentTable, plan: StepPlan, rows: IndexArray) -> Int32Array:
    """Return [T] int32 input ids: from the token mirror, or -1 where the device has them.

    rows: [B] the plan's residents. A row whose last token was sampled by the newest committed step
    needs none; prompt rows, and rows that a rollback or a new turn has made stale on the device,
    get theirs from the mirror.
    """
    ids = np.full(plan.total_tokens, NO_TOKEN, np.int32)
    supplied = ~residents.token_on_device[rows]
    if any_true(supplied):
        tokens = plan.tokens[supplied]
        total = int(tokens.sum())
        first = np.repeat(np.cumsum(tokens) - tokens, tokens)
        within = np.arange(total) - first
        position = np.repeat(plan.past_tokens[supplied], tokens) + within
        row = np.repeat(rows[supplied], tokens)
        ids[np.repeat(plan.packed_offset[supplied], tokens) + within] = residents.tokens[
            row, position
        ]
    return ids
