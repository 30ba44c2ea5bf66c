"""Reports of failed checks, worded as the contract words them."""

from __future__ import annotations

from pa_spec import Violation, checks


def violation(check_id: str, **found: object) -> Violation:
    """Return the report of a failed check of spec/checks/cache.toml, filled with what was found."""
    return Violation(check_id, checks()[check_id].message.format(**found))
