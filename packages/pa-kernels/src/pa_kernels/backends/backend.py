"""What an implementation of the operator offers."""

from __future__ import annotations

from typing import Protocol

from pa_spec import CallSignature, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor


class AttentionPlan(Protocol):
    """A backend's work for one signature: sized once a step, run once a layer.

    Lives as long as the prepared call that owns it; `run` may be called any number of times.
    """

    def run(self, inputs: PagedAttentionInputs[Tensor], out: PagedAttentionOutputs[Tensor]) -> None:
        """Store keys and values into the caches, then fill `out`.

        The caller guarantees T > 0, that every tensor has the element type, shape, device and
        row stride of the signature, and that `out` is contiguous and fits. Values are not
        checked yet: lengths, table entries and slots may be anything. Where they are host
        tensors the plan refuses bad lengths (V65, V66, V105) before the first store, for example
        through `pa_kernels.values.check_host_values`; table entries and slots never are an
        error, and never an access out of bounds.
        """


class Backend(Protocol):
    """One row of the backend table; stateless, decides from the signature alone."""

    @property
    def name(self) -> str:
        """How explain, errors and `PreparedCall.backend` call it."""

    def unsupported(self, signature: CallSignature) -> str | None:
        """Return why it cannot serve a checked signature, None if it can.

        The reason begins with the feature: "attention_bias: this backend has none".
        """

    def prepare(self, signature: CallSignature) -> AttentionPlan:
        """Size the work for a signature that it supports."""
