"""Implementations of the state operators, in the order in which they are tried."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol, final

import torch
from pa_spec import InputUnusable

from pa_kernels.state.inputs import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StateOutputs,
)
from pa_kernels.state.reference_conv import run_causal_conv
from pa_kernels.state.reference_delta import run_gated_delta_net


class StateBackend(Protocol):
    """One implementation of both operators; it receives calls whose shapes are checked.

    Both methods refuse bad lengths and row numbers (InputUnusable) before anything has changed.
    """

    @property
    def name(self) -> str:
        """How errors and callers call it."""

    def unsupported(self, device: torch.device) -> str | None:
        """Return why it serves no tensors of that device, None if it does."""

    def causal_conv(self, inputs: CausalConvInputs, activation: str) -> StateOutputs:
        """Convolve; the pool is updated in place."""

    def gated_delta_net(
        self, inputs: GatedDeltaNetInputs, attributes: GatedDeltaNetAttributes
    ) -> StateOutputs:
        """Apply the gated delta rule; the pool is updated in place."""


@final
class ReferenceStates:
    """The oracle on any device, in float32; it reads lengths on the host."""

    name = "reference"

    def unsupported(self, device: torch.device) -> str | None:
        """Refuse devices without data."""
        return None if device.type in ("cpu", "cuda") else f"device {device}: cpu and cuda only"

    @torch.no_grad()
    def causal_conv(self, inputs: CausalConvInputs, activation: str) -> StateOutputs:
        """Convolve, and round the output."""
        result = run_causal_conv(inputs, activation)
        return StateOutputs(result.output.to(inputs.input.dtype), result.final_state)

    @torch.no_grad()
    def gated_delta_net(
        self, inputs: GatedDeltaNetInputs, attributes: GatedDeltaNetAttributes
    ) -> StateOutputs:
        """Apply the rule token by token, and round the output."""
        result = run_gated_delta_net(inputs, attributes)
        return StateOutputs(result.output.to(inputs.query.dtype), result.final_state)


def _backends() -> tuple[StateBackend, ...]:
    if find_spec("pa_kernels._cpu") is None:
        return (ReferenceStates(),)
    from pa_kernels.state.compiled import CompiledStates

    return (CompiledStates(), ReferenceStates())


BACKENDS: tuple[StateBackend, ...] = _backends()
"""The first one that supports a device serves its tensors; the oracle stands last."""


def select(device: torch.device, name: str | None) -> StateBackend:
    """Return the first backend that serves a device, or the named one.

    Raises InputUnusable with every reason when none does.
    """
    reasons = []
    for backend in BACKENDS:
        if name is not None and backend.name != name:
            reasons.append(f"{backend.name}: not asked for")
            continue
        reason = backend.unsupported(device)
        if reason is None:
            return backend
        reasons.append(f"{backend.name}: {reason}")
    raise InputUnusable("backend", name or f"none for {device}", "; ".join(reasons))
