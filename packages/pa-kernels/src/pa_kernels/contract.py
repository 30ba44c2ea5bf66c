"""Which contract this implementation follows."""

from __future__ import annotations

IMPLEMENTS_CONTRACT = "1.0"
"""The contract's version (spec/VERSION) that operator and sampling were written to."""
