"""What must hold of the touched rows before a step publishes.

Each check has an id in spec/checks/engine.toml that cites the invariant it defends. The
reservation makes the cache's checks in its `validate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pa_spec import StepPlan, Violation

from pa_engine.core import EngineCore
from pa_engine.invariants import each_violation
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
    committed, sequence = columns.committed_tokens[rows], columns.sequence_tokens[rows]
    for check, broken, owners, found in (
        ("step.row_identity", columns.request[rows] != plan.request, rows, "another request"),
        ("boundary.agreement", committed != plan.past_tokens, rows, "not the plan's boundary"),
        (
            "step.token_count",
            plan.target_tokens - plan.past_tokens != plan.tokens,
            rows,
            "target is not past plus tokens",
        ),
        ("counters.order", plan.target_tokens > sequence, rows, "target beyond the sequence"),
        (
            "limits.session",
            results.sequence_tokens > columns.session_limit[sampled],
            sampled,
            "sequence beyond its session limit",
        ),
        (
            "limits.turn",
            results.turn_generated > columns.turn_limit[sampled],
            sampled,
            "output beyond its turn limit",
        ),
        (
            "mirror.position",
            columns.sequence_tokens[sampled] != results.position,
            sampled,
            "sequence moved since the token was staged",
        ),
        (
            "streams.draws",
            columns.draws[sampled] + 1 != results.draws,
            sampled,
            "draw counter moved since the token was staged",
        ),
    ):
        yield from each_violation(check, broken, owners, found)
