"""The executor for decoders written in torch."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import final

import torch
from pa_kernels import sample_tokens
from pa_spec import (
    BoolArray,
    Decoder,
    DecoderConfig,
    DecoderState,
    ExecutionCapacityExceeded,
    InputUnusable,
    PagedLayer,
    SampledTokens,
    StateManifest,
    StepInputs,
    StepLimits,
    StepWork,
)
from torch import Tensor

from pa_engine.contract import require_contract
from pa_engine.executors.packing import PackedStep, StepPacker, sampled_on_host


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """A step whose tokens are on the device: tokens [S] int32, faulty [S] bool or None."""

    tokens: Tensor
    faulty: Tensor | None
    execution_ns: int


@final
class TorchExecutor:
    """Packs a step, runs a decoder once, samples every row together.

    decoder: any pa_spec.Decoder on torch tensors; its configuration says on which device.

    Raises ContractViolation when the decoder was written to an incompatible contract.
    """

    def __init__(self, decoder: Decoder[Tensor]) -> None:
        require_contract("decoder", decoder)
        self._decoder = decoder
        self._packer: StepPacker | None = None

    @property
    def manifest(self) -> StateManifest:
        """The decoder's manifest."""
        return self._decoder.manifest

    @property
    def config(self) -> DecoderConfig:
        """The decoder's configuration."""
        return self._decoder.config

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Give the decoder its cache tensors and allocate the packing buffers."""
        if state is None:
            raise InputUnusable("cache", "it has no tensors", "a cache with storage")
        self._decoder.bind(_torch_state(state))
        self._packer = StepPacker(limits, columns, self.config.device)

    def launch(self, work: StepWork) -> LaunchedStep:
        """Run the step's forward and sampling. Raises StepAborted as the decoder does."""
        if self._packer is None:
            raise InputUnusable("TorchExecutor", "launch before bind", "bind first")
        try:
            with torch.inference_mode():
                packed = self._packer.pack(work)
                started = perf_counter_ns()
                logits = self._decoder.forward(self._inputs(packed, work))
                if not self.config.logits_for_chosen_rows:
                    logits = logits.index_select(0, packed.logits_rows)
                tokens, faulty = sample_tokens(logits, work.sampling)
                elapsed = perf_counter_ns() - started
                self._packer.remember(packed, tokens)
        except torch.OutOfMemoryError as error:
            raise ExecutionCapacityExceeded(f"the device is out of memory: {error}") from error
        except RuntimeError as error:
            if "can't allocate memory" in str(error):  # the CPU allocator has no class of its own
                raise ExecutionCapacityExceeded(f"out of memory: {error}") from error
            raise
        return LaunchedStep(tokens, faulty, elapsed)

    def collect(self, handle: LaunchedStep, live: BoolArray | None) -> SampledTokens:
        """Wait for the tokens; on a CUDA device an error of the step surfaces here."""
        del live
        started = perf_counter_ns()
        sampled = sampled_on_host(handle.tokens, handle.faulty, 0)
        waited = perf_counter_ns() - started
        return SampledTokens(sampled.token, sampled.faulty, handle.execution_ns + waited)

    def discard(self, handle: LaunchedStep) -> None:
        """Do nothing: the step's tensors die with the handle, its writes are invisible (E85)."""

    def _inputs(self, packed: PackedStep, work: StepWork) -> StepInputs[Tensor]:
        assert self._packer is not None
        cumulative = packed.cumulative_sequence_length
        positions = None
        if self.config.wants_positions:
            positions = _positions(packed, len(work.host_ids))
        return StepInputs(
            input_ids=packed.input_ids,
            positions=positions,
            cumulative_sequence_length=cumulative,
            past_seqlens=packed.past_seqlens,
            block_table=self._packer.block_table(packed, work.plan.table_columns),
            attention_metadata=packed.attention_metadata,
            logits_rows=packed.logits_rows,
        )


def _positions(packed: PackedStep, num_tokens: int) -> Tensor:
    """[T] int32 absolute positions: past + j (E68)."""
    cumulative = packed.cumulative_sequence_length
    counts = cumulative[1:] - cumulative[:-1]
    first = torch.repeat_interleave(packed.past_seqlens - cumulative[:-1], counts)
    return first + torch.arange(num_tokens, dtype=torch.int32, device=first.device)


def _torch_state(state: DecoderState[object]) -> DecoderState[Tensor]:
    """Return the state with its tensors' type proven."""
    paged = {}
    for layer, caches in state.paged.items():
        if not isinstance(caches.key, Tensor):
            found = type(caches.key).__name__
            raise InputUnusable(f"cache of layer {layer}", found, "torch tensors")
        value = caches.value
        if value is not None and not isinstance(value, Tensor):
            raise InputUnusable(f"cache of layer {layer}", type(value).__name__, "torch tensors")
        paged[layer] = PagedLayer(caches.key, value)
    return DecoderState(paged, state.block_size, state.num_blocks)
