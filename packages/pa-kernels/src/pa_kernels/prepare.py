"""Prepare a call once a step, run it once a layer."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import final

import torch
from pa_spec import (
    CallSignature,
    ElementType,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    check,
    rules,
)
from torch import Tensor

from pa_kernels.backends.table import select
from pa_kernels.geometry import CallGeometry
from pa_kernels.guard import InputGuard
from pa_kernels.signature import DTYPES, CallLayout, layout_of, signature_of_layout


@final
class PreparedCall:
    """A call that was validated, given to a backend and sized.

    Life cycle: `prepare` makes it once a step; `run` any number of times, once a layer, as long
    as the tensors keep the prepared signature.
    """

    __slots__ = ("_geometry", "_guard", "_plan", "backend", "signature")

    def __init__(self, signature: CallSignature, backend: str | None = None) -> None:
        check(signature)
        chosen = select(signature, backend)
        self.signature = signature
        self.backend = chosen.name
        self._plan = chosen.prepare(signature)
        self._geometry = CallGeometry.of(signature)
        self._guard = InputGuard(signature)

    def __repr__(self) -> str:
        geometry = self._geometry
        return (
            f"PreparedCall(backend={self.backend!r}, T={geometry.num_tokens}, "
            f"B={geometry.batch_size})"
        )

    def run(
        self,
        inputs: PagedAttentionInputs[Tensor],
        out: PagedAttentionOutputs[Tensor] | None = None,
    ) -> PagedAttentionOutputs[Tensor]:
        """Store this layer's keys and values, attend, and return the outputs.

        inputs.key_cache and inputs.value_cache are updated in place. out: buffers to fill,
        contiguous, allocated when None.

        Raises ContractViolation, before the first store, when a tensor differs from the prepared
        signature, when `out` does not fit (V71), when a tensor has the negative bit (V98), and for
        bad lengths in host tensors (V65).
        """
        self._guard.check(inputs)
        return self._run(inputs, out)

    def _run(
        self, inputs: PagedAttentionInputs[Tensor], out: PagedAttentionOutputs[Tensor] | None
    ) -> PagedAttentionOutputs[Tensor]:
        if out is None:
            out = self._allocate(inputs.query)
        else:
            self._check_out(out, inputs.query)
        if self._geometry.num_tokens > 0:
            self._plan.run(inputs, out)
        return out

    def _allocate(self, query: Tensor) -> PagedAttentionOutputs[Tensor]:
        geometry, qk_type = self._geometry, self.signature.output_qk_type
        output = query.new_empty(geometry.output_shape)
        if qk_type is None:
            return PagedAttentionOutputs(output)
        output_qk = torch.empty(
            geometry.output_qk_shape, dtype=DTYPES[qk_type], device=query.device
        )
        return PagedAttentionOutputs(output, output_qk)

    def _check_out(self, out: PagedAttentionOutputs[Tensor], query: Tensor) -> None:
        geometry, qk_type = self._geometry, self.signature.output_qk_type
        _check_buffer("output", out.output, geometry.output_shape, query.dtype)
        if (out.output_qk is None) != (qk_type is None):
            actual = "none" if out.output_qk is None else "one"
            raise rules()["V69"].violation("output_qk", actual)
        if out.output_qk is not None and qk_type is not None:
            shape = geometry.output_qk_shape
            _check_buffer("output_qk", out.output_qk, shape, DTYPES[qk_type])
        if out.output.device != query.device:
            raise rules()["V102"].violation("output", str(out.output.device), device=query.device)


def prepare(signature: CallSignature, backend: str | None = None) -> PreparedCall:
    """Validate a signature, select a backend and size its work; once a step.

    backend: the name of the one to use, None = the first of the table that supports the call.
    PA_KERNEL_DEBUG=1 prints the selected one to standard error.

    Raises ContractViolation for a broken rule, when no backend supports the call (V59), and when
    the named one does not (V71).
    """
    prepared = PreparedCall(signature, backend)
    _announce(prepared)
    return prepared


def paged_attention(
    inputs: PagedAttentionInputs[Tensor],
    attributes: PagedAttentionAttributes,
    output_qk_type: ElementType | None = None,
) -> PagedAttentionOutputs[Tensor]:
    """Run the operator once: prepare and run in one go.

    The caches are updated in place. output_qk_type: element type of output 3, float32 when
    qk_output asks for it and None is given. Calls of a layout that was seen lately share what was
    prepared for it, which is a function of the layout alone.
    """
    layout = layout_of(inputs, attributes, output_qk_type)
    if attributes.qk_output:
        # How large a score matrix may be is read from the environment, call by call.
        return prepare(signature_of_layout(layout)).run(inputs)
    prepared = _prepared(layout)
    _announce(prepared)
    # An equal layout is what the guard of `run` would prove.
    return prepared._run(inputs, None)  # noqa: SLF001


@lru_cache(maxsize=32)
def _prepared(layout: CallLayout) -> PreparedCall:
    return PreparedCall(signature_of_layout(layout))


def _announce(prepared: PreparedCall) -> None:
    if os.environ.get("PA_KERNEL_DEBUG") == "1":
        sys.stderr.write(f"pa_kernels: {prepared!r}\n")


def _check_buffer(name: str, buffer: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    is_plain = buffer.is_contiguous() and not buffer.is_neg()
    if tuple(buffer.shape) != shape or buffer.dtype != dtype or not is_plain:
        actual = f"{buffer.dtype} {list(buffer.shape)} with strides {buffer.stride()}"
        actual += " and the negative bit" if buffer.is_neg() else ""
        expected = {"element_type": dtype, "shape": list(shape)}
        raise rules()["V71"].violation(name, actual, "buffer", **expected)
