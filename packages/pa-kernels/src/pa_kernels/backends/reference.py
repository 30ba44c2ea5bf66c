"""The oracle as a backend: serves every call, slowly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

import torch
from pa_spec import (
    CallSignature,
    InputUnusable,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
)
from torch import Tensor

from pa_kernels import reference
from pa_kernels.geometry import CallGeometry

OUTPUT_QK_LIMIT_VARIABLE = "PA_KERNEL_OUTPUT_QK_LIMIT_BYTES"
_OUTPUT_QK_LIMIT_BYTES = 1 << 30


@final
@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """A prepared oracle call."""

    attributes: PagedAttentionAttributes

    def run(self, inputs: PagedAttentionInputs[Tensor], out: PagedAttentionOutputs[Tensor]) -> None:
        """Compute in float32 and round into `out`."""
        with torch.no_grad():
            result = reference.run(inputs, self.attributes)
            out.output.copy_(result.output)
            if out.output_qk is not None and result.output_qk is not None:
                out.output_qk.copy_(result.output_qk)


@final
@dataclass(frozen=True, slots=True)
class ReferenceBackend:
    """Readable torch on any device; reads lengths on the host, so it can not be captured."""

    name: str = "reference"

    def unsupported(self, signature: CallSignature) -> str | None:
        """Refuse devices without data, and score matrices that would fill the memory (V70)."""
        if signature.device not in ("cpu", "cuda"):
            return f"device {signature.device}: cpu and cuda only"
        if signature.output_qk_type is None:
            return None
        needed = signature.output_qk_type.itemsize
        for extent in CallGeometry.of(signature).output_qk_shape:
            needed *= extent
        limit = _output_qk_limit()
        if needed > limit:
            return f"output_qk: {needed} bytes, at most {limit} ({OUTPUT_QK_LIMIT_VARIABLE}, V70)"
        return None

    def prepare(self, signature: CallSignature) -> ReferencePlan:
        """Keep the attributes; the oracle sizes nothing ahead."""
        return ReferencePlan(signature.attributes)


def _output_qk_limit() -> int:
    text = os.environ.get(OUTPUT_QK_LIMIT_VARIABLE, str(_OUTPUT_QK_LIMIT_BYTES))
    if not text.strip().isdecimal():
        raise InputUnusable(OUTPUT_QK_LIMIT_VARIABLE, repr(text), "a whole number of bytes")
    return int(text)
