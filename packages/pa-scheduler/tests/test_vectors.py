"""The policy packs the contract's golden layouts, and hands out its golden budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from naive_policy import Row
from pa_scheduler import DecodeFirstPolicy, bucket_columns
from pa_spec import StepLimits, vectors
from policy_views import admit, resident_view, waiting_view


@pytest.mark.spec("E28", "E50", "E51")
@pytest.mark.parametrize("case", vectors("packed_layout"), ids=lambda case: case["id"])
def test_the_policy_packs_as_the_contract_says(case: Mapping[str, Any]) -> None:
    """Every row reads its prompt, so order is kept and the limits decide on its tokens."""
    triples = zip(case["past"], case["tokens"], case["samples"], strict=True)
    rows = []
    for place, (past, tokens, samples) in enumerate(triples):
        prompt = past + tokens + (0 if samples else 9)
        rows.append(Row(place, place, past, prompt, prompt, prompt))
    chunks = [each for each, ends in zip(case["tokens"], case["samples"], strict=True) if not ends]
    limits = StepLimits(8, sum(case["tokens"]), chunk_tokens=max(chunks, default=0))
    policy = DecodeFirstPolicy(16)

    candidates = policy.order(resident_view(rows), waiting_view([]))
    plan = policy.pack(candidates, admit(candidates, range(len(rows))), limits)

    assert plan.tokens.tolist() == case["tokens"]
    assert plan.packed_offset.tolist() == case["packed_offset"]
    assert plan.logits_rows.tolist() == case["logits_rows"]
    assert plan.target_tokens.tolist() == case["target_tokens"]


@pytest.mark.spec("E42", "E50")
@pytest.mark.parametrize("case", vectors("token_budgets"), ids=lambda case: case["id"])
def test_the_policy_hands_out_tokens_as_the_contract_says(case: Mapping[str, Any]) -> None:
    rows = [
        Row(place, place, each["committed"], each["sequence"], each["prompt"], each["sequence"] + 9)
        for place, each in enumerate(case["rows"])
    ]
    limits = StepLimits(8, case["max_scheduled_tokens"], chunk_tokens=case["cap"])
    policy = DecodeFirstPolicy(16)

    candidates = policy.order(resident_view(rows), waiting_view([]))
    plan = policy.pack(candidates, admit(candidates, range(len(rows))), limits)

    assert plan.resident.tolist() == list(range(len(rows)))
    assert plan.tokens.tolist() == case["tokens"]


@pytest.mark.spec("E122")
@pytest.mark.parametrize("case", vectors("column_buckets"), ids=lambda case: case["id"])
def test_columns_come_in_the_buckets_of_the_contract(case: Mapping[str, Any]) -> None:
    columns = bucket_columns(case["longest"], case["block_size"], case["max_columns"] or None)

    assert columns == case["columns"]
