"""Calls of the state operators that are only traced are refused as those that run."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from pa_kernels import CausalConvInputs, GatedDeltaNetInputs, StatePool
from pa_spec import InputUnusable
from state_problem import ConvOptions, DeltaOptions, int32, random_conv, random_delta
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

CONV = random_conv(1, ConvOptions(tokens=(2, 5), channels=8))
DELTA = random_delta(1, DeltaOptions(tokens=(2, 5), key_size=8, value_size=6))
TRACED = ("meta", "fake")


def flat(inputs: CausalConvInputs | GatedDeltaNetInputs, how: str) -> list[Tensor | None]:
    """Return the operator's tensors as tracing has them: without numbers."""
    given: list[Tensor | None] = [
        getattr(inputs, each.name) for each in fields(inputs) if each.name != "pool"
    ]
    pool: StatePool | None = inputs.pool
    given += [None] * 3 if pool is None else [pool.states, pool.read_rows, pool.write_rows]
    if how == "meta":
        return [None if each is None else each.to("meta") for each in given]
    mode = FakeTensorMode()
    return [None if each is None else mode.from_tensor(each) for each in given]


BAD_CONV: dict[str, tuple[dict[str, Tensor | StatePool | None], str]] = {
    "channels": ({"weight": torch.zeros(7, 1, 4)}, r"weight: shape \[7, 1, 4\]"),
    "element": ({"input": torch.zeros(7, 8).double()}, "input: torch.float64"),
    "state": ({"initial_state": torch.zeros(2, 8, 4)}, r"initial_state: shape \[2, 8, 4\]"),
    "strides": ({"input": torch.zeros(8, 7).T}, r"input: strides \(1, 7\)"),
    "pool": (
        {
            "initial_state": None,
            "pool": StatePool(torch.zeros(3, 8, 3).half(), int32(0, 1), int32(0, 1)),
        },
        "pool: torch.float16",
    ),
}
BAD_DELTA: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "channels": ({"key": torch.zeros(7, 2, 9)}, r"key: shape \[7, 2, 9\]"),
    "element": ({"value": torch.zeros(7, 4, 6).double()}, "value: torch.float64"),
    "state": ({"initial_state": torch.zeros(2, 4, 8, 6)}, r"initial_state: shape \[2, 4, 8, 6\]"),
    "heads": ({"value": torch.zeros(7, 3, 6)}, "value: shape .* Hv=3 .* Hk=2"),
}


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.parametrize(("change", "message"), BAD_CONV.values(), ids=BAD_CONV)
def test_a_traced_convolution_is_checked(
    change: dict[str, Tensor | StatePool | None], message: str, how: str
) -> None:
    output, _ = torch.ops.pa.varlen_causal_conv(*flat(CONV, how))
    assert output.shape == (7, 8)
    bad = flat(replace(CONV, **change), how)  # type: ignore[arg-type]

    with pytest.raises(InputUnusable, match=message):
        torch.ops.pa.varlen_causal_conv(*bad)


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.parametrize(("change", "message"), BAD_DELTA.values(), ids=BAD_DELTA)
def test_a_traced_delta_rule_is_checked(
    change: dict[str, Tensor | None], message: str, how: str
) -> None:
    output, state = torch.ops.pa.gated_delta_net(*flat(DELTA, how))
    assert (output.shape, state.shape) == ((7, 4, 6), (2, 4, 6, 8))
    bad = flat(replace(DELTA, **change), how)  # type: ignore[arg-type]

    with pytest.raises(InputUnusable, match=message):
        torch.ops.pa.gated_delta_net(*bad)


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_traced_results_have_the_types_of_real_ones(dtype: torch.dtype, how: str) -> None:
    conv = random_conv(1, ConvOptions(tokens=(2, 5), channels=8, dtype=dtype))
    delta = random_delta(1, DeltaOptions(tokens=(2, 5), key_size=8, value_size=6, dtype=dtype))
    for operator, inputs in (
        (torch.ops.pa.varlen_causal_conv, conv),
        (torch.ops.pa.gated_delta_net, delta),
    ):
        real = operator(*(getattr(inputs, each.name) for each in fields(inputs)))
        traced = operator(*flat(inputs, how))

        assert [each.dtype for each in traced] == [each.dtype for each in real]
        assert [each.shape for each in traced] == [each.shape for each in real]


@pytest.mark.parametrize("how", TRACED)
def test_attributes_of_traced_calls_are_checked(how: str) -> None:
    with pytest.raises(InputUnusable, match="activation: 'gelu'"):
        torch.ops.pa.varlen_causal_conv(*flat(CONV, how), activation="gelu")
    with pytest.raises(InputUnusable, match="scale: inf"):
        torch.ops.pa.gated_delta_net(*flat(DELTA, how), scale=float("inf"))
    with pytest.raises(InputUnusable, match=r"l2norm_epsilon: -1\.0"):
        torch.ops.pa.gated_delta_net(*flat(DELTA, how), l2norm_epsilon=-1.0)


class Convolution(torch.nn.Module):
    def __init__(self, activation: str) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, hidden: Tensor, boundaries: Tensor) -> Tensor:
        weight = torch.ones(8, 1, 4)
        output: Tensor = torch.ops.pa.varlen_causal_conv(
            hidden, weight, boundaries, activation=self.activation
        )[0]
        return output


def test_checks_leave_the_number_of_tokens_and_rows_open() -> None:
    boundaries = CONV.cumulative_sequence_length
    # torch itself sets extents of 1 apart, here that of the sequences.
    tokens, ends = torch.export.Dim("tokens"), torch.export.Dim("ends", min=3)
    program = torch.export.export(
        Convolution("silu"), (CONV.input, boundaries), dynamic_shapes=({0: tokens}, {0: ends})
    )
    hidden, other = torch.cat((CONV.input, CONV.input)), int32(0, 3, 3, 14)

    output = program.module()(hidden, other)

    assert torch.equal(output, Convolution("silu")(hidden, other))


def test_an_unknown_activation_ends_the_export_of_open_extents() -> None:
    shapes = ({0: torch.export.Dim("tokens")}, {0: torch.export.Dim("ends")})
    call = (CONV.input, CONV.cumulative_sequence_length)

    with pytest.raises(Exception, match="activation: 'gelu'"):
        torch.export.export(Convolution("gelu"), call, dynamic_shapes=shapes)
