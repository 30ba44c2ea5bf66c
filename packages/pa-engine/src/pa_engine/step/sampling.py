"""The sampling columns of one step, gathered from the resident table.

Penalties, n-gram bans and minimum lengths are derived from the token mirror each time instead of
being kept: there is no state that a rolled-back step could leave wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from pa_kernels import uniform_from_counter
from pa_spec import Float64Array, IndexArray, Int32Array, SamplingBatch, all_true

from pa_engine.residents import ResidentTable

_PLAIN = SamplingBatch()
_NONE: Int32Array = np.zeros(0, np.int32)


def sampling_batch(residents: ResidentTable, rows: IndexArray) -> SamplingBatch:
    """Return how the step's sampling rows choose their tokens.

    rows: [s] residents in the order in which they sample. A batch in which every row is plain
    greedy costs one look.
    """
    sampling = residents.sampling
    if all_true(sampling.is_plain[rows]):
        return _PLAIN
    temperature = sampling.temperature[rows]
    draws_any = bool((temperature > 0).any())
    penalized = np.flatnonzero(sampling.repetition_penalty[rows] != 1.0)
    banned_row, banned_token = _banned(residents, rows)
    penalized_row, penalized_token = _histories(residents, rows, penalized)
    return SamplingBatch(
        temperature=temperature if draws_any else None,
        top_k=sampling.top_k[rows] if draws_any else None,
        top_p=sampling.top_p[rows] if draws_any else None,
        uniform=_uniform(residents, rows) if draws_any else None,
        penalty=sampling.repetition_penalty[rows] if len(penalized) else None,
        penalized_row=penalized_row if len(penalized) else None,
        penalized_token=penalized_token if len(penalized) else None,
        banned_row=banned_row if len(banned_row) else None,
        banned_token=banned_token if len(banned_token) else None,
    )


def _uniform(residents: ResidentTable, rows: IndexArray) -> Float64Array:
    columns = residents.columns
    return uniform_from_counter(columns.seed[rows], columns.sample_index[rows], columns.draws[rows])


def _histories(
    residents: ResidentTable, rows: IndexArray, chosen: IndexArray
) -> tuple[Int32Array, Int32Array]:
    lengths = residents.columns.sequence_tokens[rows[chosen]]
    tokens = [residents.tokens[rows[i], :n] for i, n in zip(chosen, lengths, strict=True)]
    owner = np.repeat(chosen.astype(np.int32), lengths)
    return owner, np.concatenate(tokens) if tokens else _NONE


def _banned(residents: ResidentTable, rows: IndexArray) -> tuple[Int32Array, Int32Array]:
    columns, sampling = residents.columns, residents.sampling
    owners: list[Int32Array] = []
    tokens: list[Int32Array] = []
    short = columns.turn_generated[rows] < columns.turn_minimum[rows]
    for i in np.flatnonzero(short).tolist():
        ids = residents.eos[rows[i]]
        tokens.append(ids[ids >= 0])
        owners.append(np.full(len(tokens[-1]), i, np.int32))
    for i in np.flatnonzero(sampling.no_repeat_ngram[rows]).tolist():
        row = rows[i]
        sequence = residents.tokens[row, : columns.sequence_tokens[row]]
        tokens.append(repeated_continuations(sequence, int(sampling.no_repeat_ngram[row])))
        owners.append(np.full(len(tokens[-1]), i, np.int32))
    if not owners:
        return _NONE, _NONE
    return np.concatenate(owners), np.concatenate(tokens)


def repeated_continuations(sequence: Int32Array, size: int) -> Int32Array:
    """Return the tokens that would complete an n-gram of `size` that the sequence already has."""
    if len(sequence) < size:
        return _NONE
    grams = sliding_window_view(sequence, size)
    prefix = sequence[len(sequence) - size + 1 :]
    return np.ascontiguousarray(grams[(grams[:, :-1] == prefix).all(axis=1), -1])
