"""What a policy and a cache see of the requests, and the plan of one step, as arrays.

Every array is read-only by agreement: policies and caches are pure, the engine owns the data.
Axis letters: n executable residents, w waiting requests, c candidates, B rows of the step,
T packed tokens, M block-table columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pa_spec.arrays import BoolArray, IndexArray, Int32Array, Int64Array
from pa_spec.contract.rule import rules

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Limits that hold for every step of one engine.

    max_batch_size: rows of a step and residents at once. max_scheduled_tokens: packed tokens of
    a step. chunk_tokens: prompt tokens of one row in one step, 0 = no cap. reserve_turn_limit:
    admit a turn only when its whole prompt and generation limit can be promised.
    """

    max_batch_size: int
    max_scheduled_tokens: int
    chunk_tokens: int = 0
    reserve_turn_limit: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("max_batch_size", 1),
            ("max_scheduled_tokens", 1),
            ("chunk_tokens", 0),
        ):
            value: object = getattr(self, name)
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if not is_integer or not least <= value <= _INT32_MAX:  # type: ignore[operator]
                raise rules()["V72"].violation(name, repr(value), "" if least else "zero")


@dataclass(frozen=True, slots=True)
class ResidentView:
    """Executable residents in residency order (E41).

    resident: [n] indices. request: [n] ids. committed_tokens: [n] tokens in the cache (E25).
    sequence_tokens: [n] tokens of the sequence. prompt_tokens: [n] sequence length right after
    begin_turn; the row is in prefill while committed_tokens < prompt_tokens (E26).
    limit_tokens: [n] the most tokens the cache can come to hold in this turn.
    draft_tokens: [n] pending drafts, or None when no row has any.
    """

    resident: Int32Array
    request: Int64Array
    committed_tokens: Int64Array
    sequence_tokens: Int64Array
    prompt_tokens: Int64Array
    limit_tokens: Int64Array
    draft_tokens: Int32Array | None = None


@dataclass(frozen=True, slots=True)
class WaitingView:
    """Requests that own no cache yet, in order of submission (E41).

    request: [w] ids. sequence_tokens, limit_tokens: [w] as in ResidentView.
    free_resident: [f] resident indices that new rows may take, in the order to take them.
    """

    request: Int64Array
    sequence_tokens: Int64Array
    limit_tokens: Int64Array
    free_resident: Int32Array


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every request that could take part in the next step, in the policy's order.

    resident: [c] index, or -1 for a request that is not resident yet. is_prefill: [c].
    free_resident: [f] as in WaitingView. The other columns as in ResidentView.
    """

    resident: Int32Array
    request: Int64Array
    committed_tokens: Int64Array
    sequence_tokens: Int64Array
    limit_tokens: Int64Array
    is_prefill: BoolArray
    free_resident: Int32Array
    draft_tokens: Int32Array | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """Which candidates the cache can serve in the next step (E44 to E48).

    selected, deferred, unserviceable: indices into the candidates, each ascending, disjoint and
    together all of them. resident: [len(selected)] index of each selected row; a new row got one
    of the free indices. deferred can run later, unserviceable never (E46).
    """

    selected: IndexArray
    resident: Int32Array
    deferred: IndexArray
    unserviceable: IndexArray


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Who runs in a step, with how many tokens, and where (E50, E51). Frozen.

    request: [B] int64 ids. resident: [B] int32. rank: [B] int32 place in the policy's order, which
    events follow (E39). tokens: [B] int32 packed tokens of the row, drafts included.
    packed_offset: [B] int32 first packed token.
    past_tokens: [B] int64 committed before the step. target_tokens: [B] int64 committed after it.
    is_prefill, is_new: [B] bool. drafts: [B] int32, or None when no row has any.
    logits_rows: [·] int32 packed tokens whose logits are wanted; row i owns
    logits_rows[logits_offsets[i]:logits_offsets[i+1]]. logits_offsets: [B+1] int32.
    deferred, unserviceable: request ids.
    table_columns: block-table columns that the step needs. padded_rows: rows after padding for a
    captured graph, equal to B where nothing is padded. capture_key: 0 when the step runs eagerly.
    sequence_tokens: [B] int64, as in Candidates; a row's blocks hold all of it after the step, so
    that a prompt computed in chunks keeps its place (E45). None: blocks hold target_tokens only.
    limit_tokens: [B] int64, as in Candidates; what the turn of a row is promised when the engine
    reserves turn limits. None: nothing is promised.
    """

    request: Int64Array
    resident: Int32Array
    rank: Int32Array
    tokens: Int32Array
    packed_offset: Int32Array
    past_tokens: Int64Array
    target_tokens: Int64Array
    is_prefill: BoolArray
    is_new: BoolArray
    drafts: Int32Array | None
    logits_rows: Int32Array
    logits_offsets: Int32Array
    deferred: Int64Array
    unserviceable: Int64Array
    total_tokens: int
    table_columns: int
    padded_rows: int
    capture_key: int
    sequence_tokens: Int64Array | None = None
    limit_tokens: Int64Array | None = None

    @property
    def num_rows(self) -> int:
        """Rows of the step (B)."""
        return len(self.resident)

    def sampling_rows(self) -> Int32Array | None:
        """Return [S] indices of the rows that sample in this step, None when every row does."""
        if self.drafts is None and len(self.logits_rows) == len(self.resident):
            return None  # without drafts a row wants one row of logits or none
        counts = self.logits_offsets[1:] - self.logits_offsets[:-1]
        return np.flatnonzero(counts).astype(np.int32)
