"""Settings of the property tests: how many examples, and never a deadline on a shared machine."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("soak", max_examples=5000, stateful_step_count=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
