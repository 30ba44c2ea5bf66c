"""A user's file: it must type-check against the public names of pa_scheduler."""

from __future__ import annotations

from pa_scheduler import DecodeFirstPolicy, bucket_columns
from pa_spec import Admission, Candidates, SchedulerPolicy, StepLimits, StepPlan

policy: SchedulerPolicy = DecodeFirstPolicy(block_size=16, max_columns=64)
columns: int = bucket_columns(100, block_size=16)


def plan(candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
    return policy.pack(candidates, admission, limits)
