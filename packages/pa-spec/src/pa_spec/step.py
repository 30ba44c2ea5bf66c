"""What crosses from the engine to an executor and from an executor to a decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from pa_spec.arrays import BoolArray, Float32Array, Float64Array, Int32Array, StepId
from pa_spec.plan import StepPlan
from pa_spec.state import TensorT_co


@dataclass(frozen=True, slots=True)
class TableDelta:
    """Block-table entries that a reservation added: table[resident[i], column[i]] = block_id[i].

    All [d] int32. Applying one twice, or one whose step was discarded, is harmless: entries
    beyond a row's committed blocks are never read.
    """

    resident: Int32Array
    column: Int32Array
    block_id: Int32Array


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """How the step's sampling rows choose their tokens; None where no row uses a feature.

    Rows are counted over the sampling rows of the plan (len(logits_rows) without drafts), S.
    temperature: [S] float32, 0 = greedy. top_k: [S] int32, 0 = off. top_p: [S] float32, 1 = off.
    uniform: [S] float64 in [0, 1), from the row's own counter-based stream.
    penalty: [S] float32 with penalized_row, penalized_token: [p] int32, each (row, token) pair to
    penalize. banned_row, banned_token: [b] int32, each (row, token) pair that must not be chosen.
    The whole batch is greedy and unprocessed when every field is None.
    """

    temperature: Float32Array | None = None
    top_k: Int32Array | None = None
    top_p: Float32Array | None = None
    uniform: Float64Array | None = None
    penalty: Float32Array | None = None
    penalized_row: Int32Array | None = None
    penalized_token: Int32Array | None = None
    banned_row: Int32Array | None = None
    banned_token: Int32Array | None = None


@dataclass(frozen=True, slots=True)
class StepWork:
    """One step as the engine hands it to an executor.

    host_ids: [T] int32 input ids that the host knows; -1 where the id is the row's last sampled
    token, which only the device holds. table: entries reserved for the step.
    """

    step_id: StepId
    plan: StepPlan
    host_ids: Int32Array
    table: TableDelta
    sampling: SamplingBatch


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """What a step sampled, in the order of the plan's sampling rows.

    token: [S] int32, ids of the vocabulary, any one where faulty. faulty: [S] bool, rows whose
    logits held no finite maximum (their request fails, the others commit), or None when none was.
    execution_ns: time that forward and sampling took, which is not the engine's host time.
    """

    token: Int32Array
    faulty: BoolArray | None = None
    execution_ns: int = 0


@dataclass(frozen=True, slots=True)
class StepInputs(Generic[TensorT_co]):
    """One step as a decoder sees it (E68), all int32.

    input_ids: [T]. positions: [T], None unless the decoder wants them.
    cumulative_sequence_length: [B+1]. past_seqlens: [B]. block_table: [B, M].
    attention_metadata: [3] on the host (max query, max KV, lower bound of the largest KV).
    logits_rows: [·] packed tokens whose logits are wanted. slot_mapping: [T] or None.
    block_table_windowed: [B, M] or None. read_rows, write_rows: [B] fixed-state rows or None.
    """

    input_ids: TensorT_co
    positions: TensorT_co | None
    cumulative_sequence_length: TensorT_co
    past_seqlens: TensorT_co
    block_table: TensorT_co
    attention_metadata: TensorT_co
    logits_rows: TensorT_co
    slot_mapping: TensorT_co | None = None
    block_table_windowed: TensorT_co | None = None
    read_rows: TensorT_co | None = None
    write_rows: TensorT_co | None = None


@dataclass(frozen=True, slots=True)
class BlockUsage:
    """How a pool's blocks are spread: free + reserved + committed = total (E64)."""

    free: int
    reserved: int
    committed: int
    total: int
