"""The packed causal convolution with state."""

from __future__ import annotations

from pa_kernels.state.backend import select
from pa_kernels.state.checks import check_causal_conv
from pa_kernels.state.inputs import CausalConvInputs, StateOutputs


def varlen_causal_conv(
    inputs: CausalConvInputs, activation: str = "none", backend: str | None = None
) -> StateOutputs:
    """Convolve packed sequences, each continuing from its state; contract section 18.

    activation: none | silu | swish (which are one). backend: name of the one to use, None = the
    first that serves the device. A pool is updated in place; sequences without tokens keep their
    state. The bits of the compiled backend do not depend on how a sequence is divided into calls.
    There is no backward: results are detached from inputs that require grad.

    Raises InputUnusable, naming the tensor, before anything has changed.
    """
    check_causal_conv(inputs, activation)
    return select(inputs.input.device, backend).causal_conv(inputs, activation)
