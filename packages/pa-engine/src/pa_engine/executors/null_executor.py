"""An executor without a model: it packs like the real one and answers a fixed token."""

from __future__ import annotations

from typing import final

import numpy as np
from pa_spec import (
    BoolArray,
    DecoderConfig,
    DecoderState,
    InputUnusable,
    Int32Array,
    SampledTokens,
    StateManifest,
    StepLimits,
    StepWork,
)

from pa_engine.executors.packing import StepPacker


@final
class NullExecutor:
    """Measures what everything but the model costs: packing is real, forward and sampling are not.

    Every sampling row gets `token`. Its manifest has no state, so a cache built for it only does
    the accounting.
    """

    def __init__(
        self, vocab_size: int = 128_256, context_length: int = 131_072, token: int = 1
    ) -> None:
        if not 0 <= token < vocab_size:
            raise InputUnusable("token", f"{token}", f"ids from 0 to {vocab_size - 1}")
        self.manifest = StateManifest(())
        self.config = DecoderConfig(vocab_size, context_length)
        self._token = token
        self._packer: StepPacker | None = None
        self._answers: Int32Array = np.zeros(0, np.int32)

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Size the buffers; there is no decoder to give the state to."""
        del state
        self._packer = StepPacker(limits, columns, "cpu")
        self._answers = np.full(limits.max_scheduled_tokens, self._token, np.int32)

    def launch(self, work: StepWork) -> int:
        """Pack the step; the handle is the number of rows that sample."""
        if self._packer is None:
            raise InputUnusable("NullExecutor", "launch before bind", "bind first")
        packed = self._packer.pack(work)
        return len(packed.sampling_resident)

    def collect(self, handle: int, live: BoolArray | None) -> SampledTokens:
        """Return the fixed token for every sampling row."""
        del live
        return SampledTokens(self._answers[:handle])

    def discard(self, handle: int) -> None:
        """Do nothing: nothing runs."""
