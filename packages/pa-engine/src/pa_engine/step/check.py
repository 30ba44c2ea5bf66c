"""What must hold of the touched rows before a step publishes.

Each check has an id in spec/checks/engine.toml that cites the invariant it defends. The
reservation makes the cache's checks in its `validate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from pa_spec import StepPlan, Violation, all_true, same

from pa_engine.core import EngineCore
from pa_engine.report import each_violation, violation
from pa_engine.step.checkpoint import Checkpoint
from pa_engine.step.results import StepResults


def check_step(
    core: EngineCore, plan: StepPlan, checkpoint: Checkpoint, results: StepResults
) -> Sequence[Violation]:
    """Check the touched rows against the plan; independent of committed context (E81)."""
    columns, rows = core.residents.columns, checkpoint.rows
    sampled = results.resident
    sound = (
        checkpoint.holds(columns)
        and same(columns.request[rows], plan.request)
        and same(checkpoint.committed_tokens, plan.past_tokens)
        and same(plan.past_tokens + plan.tokens, plan.target_tokens)
        and _layout_holds(plan, checkpoint)
        and all_true(results.sequence_tokens <= columns.session_limit[sampled])
        and all_true(results.turn_generated <= columns.turn_limit[sampled])
    )
    return () if sound else tuple(_explain_step(core, plan, checkpoint, results))


def _layout_holds(plan: StepPlan, checkpoint: Checkpoint) -> bool:
    """Whether rows lie one behind the other, and those that reach their end sample from it."""
    ends = plan.packed_offset + plan.tokens
    if plan.packed_offset[0] or ends[-1] != plan.total_tokens:
        return False
    if not same(ends[:-1], plan.packed_offset[1:]):
        return False
    last = ends - 1
    rows = plan.sampling_rows()
    if rows is None:
        at_end = same(plan.target_tokens, checkpoint.sequence_tokens)
        return at_end and same(plan.logits_rows, last)
    left = checkpoint.sequence_tokens - plan.target_tokens
    return (
        all_true(left >= 0)
        and same(np.flatnonzero(left == 0).astype(np.int32), rows)
        and same(plan.logits_rows, last[rows])
    )


def _explain_step(
    core: EngineCore, plan: StepPlan, checkpoint: Checkpoint, results: StepResults
) -> Iterator[Violation]:
    columns, rows, sampled = core.residents.columns, checkpoint.rows, results.resident
    owner, committed = columns.request[rows], columns.committed_tokens[rows]
    sequence, draws = columns.sequence_tokens[rows], columns.draws[rows]
    generated, before = columns.turn_generated[rows], checkpoint.turn_generated
    past, target, staged = plan.past_tokens, plan.target_tokens, checkpoint.draws + 1
    ours = {"engine_tokens": committed, "other_tokens": past}
    extent = {"past": past, "target": target, "tokens": plan.tokens}
    ahead = {"committed_tokens": target, "sequence_tokens": sequence}
    place = checkpoint.sequence_tokens
    moved = {"sequence_tokens": sequence, "position": place}
    counted = {"generated": generated, "before": before}
    for check_id, broken, found in (
        ("step.row_identity", owner != plan.request, {"owner": owner, "planned": plan.request}),
        ("boundary.agreement", committed != past, ours),
        ("step.token_count", target - past != plan.tokens, extent),
        ("counters.order", target > sequence, ahead),
        ("mirror.position", sequence != place, moved),
        ("streams.draws", draws + 1 != staged, {"draws": draws, "staged": staged}),
        ("counters.generated", generated != before, counted),
    ):
        yield from each_violation(check_id, broken, rows, **found)
    yield from _explain_layout(plan, checkpoint)
    session, turn = columns.session_limit[sampled], columns.turn_limit[sampled]
    after, output = results.sequence_tokens, results.turn_generated
    for check_id, broken, found in (
        ("limits.session", after > session, {"sequence_tokens": after, "limit": session}),
        ("limits.turn", output > turn, {"generated": output, "limit": turn}),
    ):
        yield from each_violation(check_id, broken, sampled, **found)


def _explain_layout(plan: StepPlan, checkpoint: Checkpoint) -> Iterator[Violation]:
    ends = np.cumsum(plan.tokens)
    starts = {"offset": plan.packed_offset, "expected": ends - plan.tokens}
    moved = starts["offset"] != starts["expected"]
    yield from each_violation("step.offset", moved, plan.resident, **starts)
    if ends[-1] != plan.total_tokens:
        yield violation("step.total", planned=plan.total_tokens, tokens=int(ends[-1]))
    wanted = checkpoint.sequence_tokens == plan.target_tokens
    bounds = pairwise(plan.logits_offsets.tolist())
    last = (plan.packed_offset + plan.tokens - 1).tolist()
    for row, (begin, end) in enumerate(bounds):
        found = plan.logits_rows[begin:end].tolist()
        expected = [last[row]] if wanted[row] else []
        if found != expected:
            resident = int(plan.resident[row])
            yield violation("step.logits", resident=resident, found=found, expected=expected)
