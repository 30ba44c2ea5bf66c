"""What must hold of the touched rows before a step publishes.

Each check has an id in spec/checks/engine.toml that cites the invariant it defends. The
reservation makes the cache's checks in its `validate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pa_spec import StepPlan, Violation

from pa_engine.core import EngineCore
from pa_engine.report import each_violation
from pa_engine.step.results import StepResults


def check_step(core: EngineCore, plan: StepPlan, results: StepResults) -> Sequence[Violation]:
    """Check the touched rows against the plan; independent of committed context (E81)."""
    columns, rows = core.residents.columns, plan.resident
    sampled = results.resident
    committed, sequence = columns.committed_tokens[rows], columns.sequence_tokens[rows]
    sound = (
        bool((columns.request[rows] == plan.request).all())
        and bool((committed == plan.past_tokens).all())
        and bool((plan.target_tokens - plan.past_tokens == plan.tokens).all())
        and bool((plan.target_tokens <= sequence).all())
        and bool((results.sequence_tokens <= columns.session_limit[sampled]).all())
        and bool((results.turn_generated <= columns.turn_limit[sampled]).all())
        and bool((columns.sequence_tokens[sampled] == results.position).all())
        and bool((columns.draws[sampled] + 1 == results.draws).all())
    )
    return () if sound else tuple(_explain_step(core, plan, results))


def _explain_step(core: EngineCore, plan: StepPlan, results: StepResults) -> Iterator[Violation]:
    columns, rows, sampled = core.residents.columns, plan.resident, results.resident
    owner, committed = columns.request[rows], columns.committed_tokens[rows]
    sequence, draws = columns.sequence_tokens, columns.draws[sampled]
    past, target = plan.past_tokens, plan.target_tokens
    ours = {"engine_tokens": committed, "other_tokens": past}
    extent = {"past": past, "target": target, "tokens": plan.tokens}
    ahead = {"committed_tokens": target, "sequence_tokens": sequence[rows]}
    for check_id, broken, found in (
        ("step.row_identity", owner != plan.request, {"owner": owner, "planned": plan.request}),
        ("boundary.agreement", committed != past, ours),
        ("step.token_count", target - past != plan.tokens, extent),
        ("counters.order", target > sequence[rows], ahead),
    ):
        yield from each_violation(check_id, broken, rows, **found)
    session, turn = columns.session_limit[sampled], columns.turn_limit[sampled]
    after, generated = results.sequence_tokens, results.turn_generated
    moved = {"sequence_tokens": sequence[sampled], "position": results.position}
    for check_id, broken, found in (
        ("limits.session", after > session, {"sequence_tokens": after, "limit": session}),
        ("limits.turn", generated > turn, {"generated": generated, "limit": turn}),
        ("mirror.position", sequence[sampled] != results.position, moved),
        ("streams.draws", draws + 1 != results.draws, {"draws": draws, "staged": results.draws}),
    ):
        yield from each_violation(check_id, broken, sampled, **found)
