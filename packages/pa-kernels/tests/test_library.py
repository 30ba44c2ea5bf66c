"""The operator in torch's library: same code, declared mutations, traceable."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch
from pa_kernels import paged_attention
from pa_kernels.testing import PagedProblem, ProblemOptions, random_options, random_paged_problem
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode


def arguments(problem: PagedProblem) -> tuple[tuple[Tensor | None, ...], dict[str, Any]]:
    return tuple(tensor for _, tensor in problem.inputs.named()), asdict(problem.attributes)


def call(problem: PagedProblem) -> tuple[Tensor, Tensor]:
    tensors, attributes = arguments(problem)
    result: tuple[Tensor, Tensor] = torch.ops.pa.paged_attention(*tensors, **attributes)
    return result


@pytest.mark.parametrize("seed", range(6))
def test_the_registered_operator_equals_the_function(seed: int) -> None:
    problem = random_paged_problem(seed)
    twin = problem.clone()

    output, output_qk = call(problem)

    expected = paged_attention(twin.inputs, twin.attributes)
    assert torch.equal(output, expected.output)
    assert output_qk.shape == (0,)
    assert torch.equal(problem.inputs.key_cache.nan_to_num(9), twin.inputs.key_cache.nan_to_num(9))


OPTIONS = {
    "plain": ProblemOptions(rows=((5, 2), (0, 1))),
    "packed": ProblemOptions(rows=((5, 2), (0, 1)), is_packed=True, rotary_dim=16),
    "random": random_options(4),
    "scores": ProblemOptions(rows=((5, 2), (0, 1)), qk_output=2),
    "latent": ProblemOptions(
        rows=((5, 2), (0, 1)), kv_num_heads=1, v_head_size=24, scale=0.2, qk_output=1
    ),
}


def filled(problem: PagedProblem) -> PagedProblem:
    """Replace NaN in unused slots, which the checks of torch take for differences."""
    problem = problem.clone()
    for cache in (problem.inputs.key_cache, problem.inputs.value_cache):
        if cache is not None:
            cache.nan_to_num_(0.5)
    return problem


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_torch_finds_schema_mutations_and_fake_in_order(options: ProblemOptions) -> None:
    tensors, attributes = arguments(filled(random_paged_problem(2, options)))

    torch.library.opcheck(torch.ops.pa.paged_attention.default, tensors, attributes)


@pytest.mark.parametrize("entries", [0, 3])
def test_the_fake_knows_the_shape_of_scores(entries: int) -> None:
    options = ProblemOptions(rows=((5, 2), (0, 1)), qk_output=1, metadata_entries=entries)
    problem = random_paged_problem(2, options)
    _, scores = call(problem.clone())

    with FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv()) as mode:
        tensors, attributes = arguments(problem)
        fakes = [None if each is None else mode.from_tensor(each) for each in tensors]
        _, fake = torch.ops.pa.paged_attention(*fakes, **attributes)

    assert fake.dtype == scores.dtype
    assert tuple(fake.shape[:2]) == tuple(scores.shape[:2])
    assert entries or fake.shape[2] == scores.shape[2]


def test_a_decoder_layer_can_be_exported() -> None:
    class Layer(torch.nn.Module):
        def forward(self, hidden: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
            output, _ = torch.ops.pa.paged_attention(
                hidden * 2, None, None, *tensors, num_heads=4, kv_num_heads=2
            )
            result: Tensor = output + 1
            return result

    problem = random_paged_problem(1, ProblemOptions(rows=((5, 2), (0, 1)), is_packed=True))
    inputs = problem.inputs
    assert inputs.value_cache is not None
    tensors = (
        inputs.key_cache,
        inputs.value_cache,
        inputs.cumulative_sequence_length,
        inputs.past_seqlens,
        inputs.block_table,
    )
    program = torch.export.export(Layer(), (inputs.query, tensors))

    twin = problem.clone()
    expected = Layer()(
        twin.inputs.query, (twin.inputs.key_cache, twin.inputs.value_cache, *tensors[2:])
    )
    assert torch.equal(program.module()(inputs.query, tensors), expected)
