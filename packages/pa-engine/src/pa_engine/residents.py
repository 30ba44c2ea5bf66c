"""Per-resident state as a structure of arrays: what the hot path reads and publication assigns.

Life of a row: free → staged by a step that admits a request (its values are written, but the row
is not visible: state stays FREE) → ACTIVE at publication → TURN_COMPLETE ⇄ ASSIGNED ⇄ ACTIVE as
turns come and go → free when the request closes. A row's index never changes meanwhile; its
generation counts its owners.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from pa_spec import (
    BoolArray,
    Float32Array,
    IndexArray,
    Int32Array,
    Int64Array,
    RequestId,
    RequestState,
    ResidentView,
)

from pa_engine.options import NO_LIMIT, GeneratorParams

FREE = -1
"""State of a row that nobody owns."""

FIRST_MIRROR_TOKENS = 128
"""Columns of the token mirror at first; it grows by doubling."""


@dataclass(slots=True)
class ResidentColumns:
    """Columns of the table, all [max_batch_size].

    sequence_tokens: tokens of the logical sequence, all in the mirror (E25, E29).
    committed_tokens: tokens whose keys and values are committed. prompt_tokens: sequence length
    right after begin_turn (E26). limit_tokens: the most tokens the cache can hold in this turn.
    draws: tokens that this request has drawn, the counter of its random stream.
    admitted: order of admission, the residency order (E41).
    """

    generation: Int64Array
    request: Int64Array
    state: Int64Array
    sequence_tokens: Int64Array
    committed_tokens: Int64Array
    prompt_tokens: Int64Array
    limit_tokens: Int64Array
    turn_id: Int64Array
    turn_prompt: Int64Array
    turn_generated: Int64Array
    turn_minimum: Int64Array
    turn_limit: Int64Array
    session_limit: Int64Array
    draws: Int64Array
    admitted: Int64Array
    seed: Int64Array
    sample_index: Int64Array


@dataclass(slots=True)
class SamplingColumns:
    """How each resident samples in its current turn, all [max_batch_size].

    is_plain: greedy without penalty, n-gram or minimum, so that the arg-max is the answer.
    """

    is_plain: BoolArray
    temperature: Float32Array
    top_k: Int32Array
    top_p: Float32Array
    repetition_penalty: Float32Array
    no_repeat_ngram: Int32Array


@dataclass(frozen=True, slots=True)
class TurnStart:
    """Values that begin a turn on a row, computed and checked before anything changes."""

    turn_id: int
    params: GeneratorParams
    seed: int
    eos: tuple[int, ...]
    prompt_tokens: int
    sequence_tokens: int
    session_limit: int

    @property
    def limit_tokens(self) -> int:
        """Most tokens in the cache during the turn: the last generated one is never stored."""
        limit = self.session_limit
        if self.params.max_generated_tokens:
            limit = min(limit, self.sequence_tokens + self.params.max_generated_tokens)
        return limit - 1


@dataclass(frozen=True, slots=True)
class _ViewBase:
    """What a view holds that only changes with a turn: rows twice, as index and as numbers."""

    rows: IndexArray
    resident: Int32Array
    request: Int64Array
    prompt_tokens: Int64Array
    limit_tokens: Int64Array


class ResidentTable:
    """The columns, the token mirror, and the views that planning takes of them."""

    def __init__(self, max_batch_size: int) -> None:
        size = max_batch_size
        self.columns = ResidentColumns(*(np.zeros(size, np.int64) for _ in fields(ResidentColumns)))
        self.columns.state[:] = FREE
        self.columns.request[:] = FREE
        self.sampling = SamplingColumns(
            np.ones(size, np.bool_),
            np.zeros(size, np.float32),
            np.zeros(size, np.int32),
            np.ones(size, np.float32),
            np.ones(size, np.float32),
            np.zeros(size, np.int32),
        )
        self.tokens: Int32Array = np.zeros((size, FIRST_MIRROR_TOKENS), np.int32)
        """[max_batch_size, capacity] the token mirror (E29)."""
        self.eos: Int32Array = np.full((size, 1), FREE, np.int32)
        """[max_batch_size, most ids of a turn] end-of-sequence ids, padded with -1."""
        self.token_on_device: BoolArray = np.zeros(size, np.bool_)
        """Whether the device holds the row's last token; a rollback or a new turn clears it."""
        self._admissions = 0
        self._base: _ViewBase | None = None

    def view(self) -> ResidentView:
        """Return the executable residents in residency order (E41).

        What only changes with a turn is gathered once and kept until a turn or a row changes.
        """
        columns = self.columns
        base = self._base or self._gather_base()
        return ResidentView(
            base.resident,
            base.request,
            columns.committed_tokens[base.rows],
            columns.sequence_tokens[base.rows],
            base.prompt_tokens,
            base.limit_tokens,
        )

    def _gather_base(self) -> _ViewBase:
        columns = self.columns
        state = columns.state
        runs = (state == RequestState.ACTIVE) | (state == RequestState.ASSIGNED)
        rows = np.flatnonzero(runs)
        rows = rows[np.argsort(columns.admitted[rows], kind="stable")]
        self._base = _ViewBase(
            rows,
            rows.astype(np.int32),
            columns.request[rows],
            columns.prompt_tokens[rows],
            columns.limit_tokens[rows],
        )
        return self._base

    def free_rows(self) -> Int32Array:
        """Return the rows that nobody owns, lowest first."""
        return np.flatnonzero(self.columns.state == FREE).astype(np.int32)

    def changed(self) -> None:
        """Note that the set of executable rows, or one of their turns, is another."""
        self._base = None

    def ensure_capacity(self, tokens: int) -> None:
        """Grow the mirror by doubling until a row can hold so many tokens."""
        capacity = self.tokens.shape[1]
        if tokens <= capacity:
            return
        while capacity < tokens:
            capacity *= 2
        grown = np.zeros((self.tokens.shape[0], capacity), np.int32)
        grown[:, : self.tokens.shape[1]] = self.tokens
        self.tokens = grown

    def ensure_eos(self, count: int) -> None:
        """Widen the end-of-sequence table until a row can hold so many ids."""
        missing = count - self.eos.shape[1]
        if missing > 0:
            pad = np.full((self.eos.shape[0], missing), FREE, np.int32)
            self.eos = np.concatenate((self.eos, pad), axis=1)

    def stage(self, row: int, request: RequestId, tokens: Int32Array, start: TurnStart) -> None:
        """Write a new request's values into a free row; it stays invisible until `admit`."""
        columns = self.columns
        columns.request[row] = request
        columns.committed_tokens[row] = 0
        columns.draws[row] = 0
        self.begin(row, tokens, 0, start)

    def begin(self, row: int, tokens: Int32Array, at: int, start: TurnStart) -> None:
        """Append a turn's input at position `at` of the row's sequence and set its turn columns.

        The mirror and the end-of-sequence table must already be wide enough: nothing here fails.
        """
        columns, sampling, params = self.columns, self.sampling, start.params
        self.tokens[row, at : at + len(tokens)] = tokens
        self.eos[row] = FREE
        self.eos[row, : len(start.eos)] = start.eos
        columns.sequence_tokens[row] = start.sequence_tokens
        columns.prompt_tokens[row] = start.sequence_tokens
        columns.limit_tokens[row] = start.limit_tokens
        columns.turn_id[row] = start.turn_id
        columns.turn_prompt[row] = start.prompt_tokens
        columns.turn_generated[row] = 0
        columns.turn_minimum[row] = params.min_generated_tokens
        columns.turn_limit[row] = params.max_generated_tokens or NO_LIMIT
        columns.session_limit[row] = start.session_limit
        columns.seed[row] = start.seed
        columns.sample_index[row] = params.sample_index
        sampling.temperature[row] = 0.0 if params.is_greedy else params.temperature
        sampling.top_k[row] = params.top_k
        sampling.top_p[row] = params.top_p
        sampling.repetition_penalty[row] = params.repetition_penalty
        sampling.no_repeat_ngram[row] = params.no_repeat_ngram_size
        sampling.is_plain[row] = (
            params.is_greedy
            and params.repetition_penalty == 1.0
            and not params.no_repeat_ngram_size
            and not (params.min_generated_tokens and start.eos)
        )
        self.token_on_device[row] = False
        self.changed()

    def unstage(self, rows: Int32Array) -> None:
        """Forget what was staged in free rows: the step that would have admitted it is gone."""
        self.columns.request[rows] = FREE
        self.changed()

    def admit(self, rows: Int32Array) -> None:
        """Make staged rows visible, in this order of admission."""
        columns = self.columns
        columns.state[rows] = int(RequestState.ACTIVE)
        columns.generation[rows] += 1
        columns.admitted[rows] = self._admissions + np.arange(1, len(rows) + 1)
        self._admissions += len(rows)
        self.changed()

    def free(self, row: int) -> None:
        """Give a closed request's row back."""
        self.columns.state[row] = FREE
        self.columns.request[row] = FREE
        self.changed()
