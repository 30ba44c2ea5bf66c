"""The state operators in torch's library: same code, declared mutation, traceable."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from pa_kernels import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StatePool,
    gated_delta_net,
    varlen_causal_conv,
)
from pa_kernels.testing import expect_close
from pa_spec import InputUnusable
from state_problem import ConvOptions, DeltaOptions, int32, random_conv, random_delta
from torch import Tensor

Call = tuple[tuple[Tensor | None, ...], dict[str, Any]]


def conv_call(*, has_pool: bool) -> Call:
    inputs = random_conv(1, ConvOptions(tokens=(2, 5), channels=8))
    tensors = (
        inputs.input,
        inputs.weight,
        inputs.cumulative_sequence_length,
        inputs.bias,
        None if has_pool else inputs.initial_state,
    )
    pool = torch.randn(2, 3, 8, 3)
    own = (pool, int32(4, -1), int32(4, 1)) if has_pool else ()
    return (*tensors, *own), {"activation": "silu"}


def delta_call(*, has_pool: bool) -> Call:
    inputs = random_delta(1, DeltaOptions(tokens=(2, 66), key_size=8, value_size=6, has_rates=True))
    tensors = (
        inputs.query,
        inputs.key,
        inputs.value,
        inputs.cumulative_sequence_length,
        inputs.decay,
        inputs.beta,
        None if has_pool else inputs.initial_state,
        inputs.a_log,
        inputs.dt_bias,
    )
    pool = torch.randn(2, 3, 4, 6, 8)
    own = (pool, int32(4, -1), int32(4, 1)) if has_pool else ()
    return (*tensors, *own), {"qk_l2norm": True, "scale": 0.5}


CALLS = {"conv": conv_call, "delta": delta_call}
OPERATORS = {"conv": torch.ops.pa.varlen_causal_conv, "delta": torch.ops.pa.gated_delta_net}


@pytest.mark.parametrize("has_pool", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_torch_finds_schema_mutation_and_fake_in_order(name: str, *, has_pool: bool) -> None:
    tensors, attributes = CALLS[name](has_pool=has_pool)

    torch.library.opcheck(OPERATORS[name].default, tensors, attributes)


@pytest.mark.parametrize("has_pool", [False, True])
def test_the_registered_convolution_equals_the_function(*, has_pool: bool) -> None:
    tensors, attributes = conv_call(has_pool=has_pool)
    inputs = random_conv(1, ConvOptions(tokens=(2, 5), channels=8))
    twin = None if not has_pool else tensors[5]
    pool = None if twin is None else StatePool(twin.clone(), int32(4, -1), int32(4, 1))

    output, state = torch.ops.pa.varlen_causal_conv(*tensors, **attributes)

    own = replace(inputs, initial_state=None, pool=pool) if has_pool else inputs
    expected = varlen_causal_conv(own, "silu")
    assert torch.equal(output, expected.output)
    if pool is None or twin is None:
        assert expected.final_state is not None
        assert torch.equal(state, expected.final_state)
    else:
        assert torch.equal(twin, pool.states)
        assert state.shape == (0,)


def test_the_registered_delta_rule_equals_the_function() -> None:
    tensors, attributes = delta_call(has_pool=False)
    inputs = random_delta(1, DeltaOptions(tokens=(2, 66), key_size=8, value_size=6, has_rates=True))

    output, state = torch.ops.pa.gated_delta_net(*tensors, **attributes)

    expected = gated_delta_net(inputs, GatedDeltaNetAttributes(0.5, qk_l2norm=True))
    assert torch.equal(output, expected.output)
    assert expected.final_state is not None
    assert torch.equal(state, expected.final_state)


def test_attributes_that_are_not_given_are_those_of_the_functions_by_hand() -> None:
    # No activation: -2 stays -2. Both the query and the key of length 1/1000 become 1/sqrt(2) with
    # an epsilon of a millionth; the scale of a key size of 4 is a half: 8 * 1/2 * 1/2.
    conv = CausalConvInputs(torch.full((1, 1), -2.0), torch.ones(1, 1), int32(0, 1))
    vector = torch.tensor([[[1e-3, 0.0, 0.0, 0.0]]])
    one = torch.ones(1, 1)
    delta = GatedDeltaNetInputs(vector, vector, torch.full((1, 1, 1), 8.0), int32(0, 1), -one, one)
    tensors = (delta.query, delta.key, delta.value, int32(0, 1), delta.decay, delta.beta)

    results = (
        varlen_causal_conv(conv).output,
        torch.ops.pa.varlen_causal_conv(conv.input, conv.weight, int32(0, 1))[0],
        gated_delta_net(delta, GatedDeltaNetAttributes(qk_l2norm=True)).output,
        torch.ops.pa.gated_delta_net(*tensors, qk_l2norm=True)[0],
    )

    for result, expected in zip(results, (-2.0, -2.0, 2.0, 2.0), strict=True):
        expect_close(result.flatten(), torch.tensor([expected]))


def test_a_schema_declares_the_defaults_of_the_functions() -> None:
    # torch leaves out of a call what equals the schema's default: the function's own takes over.
    declared = {
        each.name: each.default_value
        for operator in OPERATORS.values()
        for each in operator.default._schema.arguments
        if each.kwarg_only
    }

    assert declared == {"activation": "none"} | asdict(GatedDeltaNetAttributes())


class Layer(torch.nn.Module):
    """A part of a hybrid layer over pools: convolution, then the rule on its output."""

    def forward(self, hidden: Tensor, pools: tuple[Tensor, Tensor], rows: Tensor) -> Tensor:
        boundaries = torch.tensor([0, 2, 7], dtype=torch.int32)
        mixed, _ = torch.ops.pa.varlen_causal_conv(
            hidden * 2, torch.ones(24, 1, 4), boundaries, None, None, pools[0], rows, rows,
            activation="silu",
        )  # fmt: skip
        query, key, value = mixed.view(7, 3, 8).split(1, dim=1)
        gate = torch.full((7, 1), 0.5)
        output, _ = torch.ops.pa.gated_delta_net(
            query, key, value, boundaries, -gate, gate, None, None, None, pools[1], rows, rows,
            qk_l2norm=True,
        )  # fmt: skip
        result: Tensor = output + 1
        return result


def layer_arguments() -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    draw = torch.Generator().manual_seed(3)
    pools = (torch.randn(2, 2, 24, 3, generator=draw), torch.randn(2, 2, 1, 8, 8, generator=draw))
    return torch.randn(7, 24, generator=draw), pools, int32(3, 0)


def test_a_layer_can_be_exported() -> None:
    hidden, pools, rows = layer_arguments()
    program = torch.export.export(Layer(), (hidden, pools, rows))
    twins = tuple(pool.clone() for pool in pools)

    output = program.module()(hidden, pools, rows)

    assert torch.equal(output, Layer()(hidden, twins, rows))
    for pool, twin in zip(pools, twins, strict=True):
        assert torch.equal(pool, twin)


def test_a_layer_compiles_as_one_graph() -> None:
    hidden, pools, rows = layer_arguments()
    twins = tuple(pool.clone() for pool in pools)
    compiled = torch.compile(Layer(), backend="aot_eager", fullgraph=True)

    output = compiled(hidden, pools, rows)

    assert torch.equal(output, Layer()(hidden, twins, rows))
    for pool, twin in zip(pools, twins, strict=True):
        assert torch.equal(pool, twin)


def test_a_pool_without_its_rows_is_refused() -> None:
    tensors, attributes = conv_call(has_pool=True)

    with pytest.raises(InputUnusable, match="pool: a part of it is missing"):
        torch.ops.pa.varlen_causal_conv(*tensors[:6], **attributes)
