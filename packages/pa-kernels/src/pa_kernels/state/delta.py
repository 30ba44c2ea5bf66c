"""The packed gated delta rule with state."""

from __future__ import annotations

from pa_kernels.state.backend import select
from pa_kernels.state.checks import check_gated_delta_net
from pa_kernels.state.inputs import GatedDeltaNetAttributes, GatedDeltaNetInputs, StateOutputs


def gated_delta_net(
    inputs: GatedDeltaNetInputs,
    attributes: GatedDeltaNetAttributes | None = None,
    backend: str | None = None,
) -> StateOutputs:
    """Apply the gated delta rule to packed sequences, each from its state; contract section 18.

    S = exp(g) S + k (beta (v - exp(g) S^T k))^T and output = scale * S^T q, with S kept as its
    transpose [Dv, Dk] in float32. backend: name of the one to use, None = the first that serves
    the device. A pool is updated in place; sequences without tokens keep their state. A division
    of a sequence into calls at multiples of DELTA_CHUNK_TOKENS gives the same bits, any other one
    the same values up to rounding. A chunk in which a head's state grows (any g > 0) is done token
    by token. There is no backward: results are detached from inputs that require grad.

    Raises InputUnusable, naming the tensor, before anything has changed.
    """
    attributes = attributes or GatedDeltaNetAttributes()
    check_gated_delta_net(inputs, attributes)
    return select(inputs.query.device, backend).gated_delta_net(inputs, attributes)
