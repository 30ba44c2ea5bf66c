"""The arithmetic of packing: token grants, packed layout, table width. Pure functions of arrays.

Axis letters: B rows of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pa_spec import BoolArray, Int32Array, Int64Array

MIN_COLUMNS = 8
"""Narrowest bucket of block-table columns (E122)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each row's tokens lie in the packed input; fields as in `pa_spec.StepPlan`."""

    rank: Int32Array
    tokens: Int32Array
    packed_offset: Int32Array
    drafts: Int32Array | None
    logits_rows: Int32Array
    logits_offsets: Int32Array
    total_tokens: int


def layout_of_single_tokens(num_rows: int) -> Layout:
    """Lay out rows of one token each; the number of array calls does not depend on B."""
    # Rows, packed tokens and logits rows count alike, so one sequence of numbers serves all.
    places = np.arange(num_rows + 1, dtype=np.int32)
    rows = places[:-1]
    return Layout(rows, np.ones(num_rows, np.int32), rows, None, rows, places, num_rows)


def layout_of(granted: Int32Array, samples: BoolArray, drafts: Int32Array | None) -> Layout:
    """Lay out rows one after another (E51).

    granted: [B] tokens without drafts. samples: [B]; such a row wants the logits of its last
    token and of each draft (E28). drafts: [B] or None; more than 0 only where the row samples.
    """
    wanted = samples.astype(np.int32)
    tokens = granted
    if drafts is not None:
        wanted, tokens = wanted + drafts, granted + drafts
    offsets, logits_offsets = _running_sums(tokens), _running_sums(wanted)
    first_wanted = offsets[1:] - wanted - logits_offsets[:-1]
    places = np.arange(logits_offsets[-1], dtype=np.int32)
    return Layout(
        rank=np.arange(len(tokens), dtype=np.int32),
        tokens=tokens,
        packed_offset=offsets[:-1],
        drafts=drafts,
        logits_rows=places + np.repeat(first_wanted, wanted),
        logits_offsets=logits_offsets,
        total_tokens=int(offsets[-1]),
    )


def grant_in_order(wanted: Int64Array, budget: int) -> Int64Array:
    """Hand out a budget in row order: each row gets what it wants while anything is left.

    wanted: [B] >= 0. Returns [B], the sum of which is at most max(budget, 0).
    """
    wanted_before = np.cumsum(wanted) - wanted
    granted: Int64Array = np.minimum(wanted, np.maximum(budget - wanted_before, 0))
    return granted


def bucket_columns(sequence_tokens: int, block_size: int, max_columns: int | None = None) -> int:
    """Return the block-table columns that a row of sequence_tokens needs, rounded to a bucket.

    Buckets are the powers of two from 8 (E122), cut at max_columns, so that a captured graph
    serves many lengths.
    """
    blocks = max(1, -(-sequence_tokens // block_size))
    bucket = max(MIN_COLUMNS, 1 << (blocks - 1).bit_length())
    return bucket if max_columns is None else min(bucket, max_columns)


def _running_sums(counts: Int32Array) -> Int32Array:
    sums = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=sums[1:])
    return sums
