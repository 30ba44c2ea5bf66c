"""Names of the array types that cross package boundaries."""

from __future__ import annotations

from typing import NewType, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IndexArray: TypeAlias = NDArray[np.intp]

RequestId = NewType("RequestId", int)
TurnId = NewType("TurnId", int)
StepId = NewType("StepId", int)

UNMAPPED = -1
"""A block-table entry without a block, and a slot that must not be written."""

NO_TURN = 0
"""The turn id that no turn ever gets (E12)."""

NO_TOKEN = -1
"""The token column's value where an event carries no token."""
