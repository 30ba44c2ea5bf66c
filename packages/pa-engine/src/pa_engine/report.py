"""Reports of failed checks, worded as the contract words them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pa_spec import BoolArray, IndexArray, Int32Array, Int64Array, Violation, checks


def violation(check_id: str, **found: object) -> Violation:
    """Return the report of a failed check of spec/checks/engine.toml, filled with what it found."""
    return Violation(check_id, checks()[check_id].message.format(**found))


def each_violation(
    check_id: str,
    broken: BoolArray,
    resident: Int32Array | IndexArray,
    **found: Int64Array | Int32Array,
) -> Iterator[Violation]:
    """Yield a report for each broken row; broken, resident and every found: [n]."""
    for row in np.flatnonzero(broken).tolist():
        values = {name: int(column[row]) for name, column in found.items()}
        yield violation(check_id, resident=int(resident[row]), **values)
