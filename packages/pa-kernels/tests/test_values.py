"""Bad lengths, positions and scales in host tensors: refused before the first store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from pa_kernels import prepare
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import ContractViolation, PagedAttentionInputs
from torch import Tensor

Change = Callable[[PagedAttentionInputs[Tensor]], dict[str, Tensor]]


def int32(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def expect_refusal(problem: PagedProblem, backend: str, rule_id: str, name: str) -> None:
    before = problem.clone()
    call = prepare(problem.signature, backend)

    with pytest.raises(ContractViolation, match=name) as found:
        call.run(problem.inputs)

    assert found.value.rule_id == rule_id
    for left, right in (
        (problem.inputs.key_cache, before.inputs.key_cache),
        (problem.inputs.value_cache, before.inputs.value_cache),
    ):
        assert left is not None
        assert right is not None
        assert torch.equal(left.float().nan_to_num(9), right.float().nan_to_num(9))


@pytest.mark.rule("V65")
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("cumulative_sequence_length", int32(1, 2, 5), "expected a first entry of 0, got 1"),
        ("cumulative_sequence_length", int32(0, 2, 4), "expected a last entry of T=5, got 4"),
        (
            "cumulative_sequence_length",
            int32(0, 6, 5),
            "expected entries that never decrease, got -1 tokens in row 1",
        ),
        (
            "cumulative_sequence_length",
            int32(0, 2, 2**31 - 1),
            "expected a last entry of T=5, got 2147483647",
        ),
        ("past_seqlens", int32(-1, 3), "expected entries of at least 0, got -1 in row 0"),
    ],
    ids=lambda value: str(value.tolist()) if isinstance(value, Tensor) else None,
)
def test_lengths_that_are_none_are_refused(
    host_backend: str, name: str, values: Tensor, message: str
) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((7, 2), (16, 3))))
    prepare(problem.signature, host_backend).run(problem.clone().inputs)
    inputs = replace(problem.inputs, **{name: values})

    expect_refusal(replace(problem, inputs=inputs), host_backend, "V65", name)

    with pytest.raises(ContractViolation) as found:
        prepare(problem.signature, host_backend).run(inputs)
    assert str(found.value) == f"{name}: {message} (V65)"


@pytest.mark.spec("V65")
@pytest.mark.parametrize("past", [int32(7, 10**6), int32(2**31 - 1, 3)])
def test_lengths_near_the_end_of_their_range_are_refused(host_backend: str, past: Tensor) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((7, 2), (16, 3))))
    inputs = replace(problem.inputs, past_seqlens=past)
    expect_refusal(replace(problem, inputs=inputs), host_backend, "V65", "past_seqlens")


@pytest.mark.rule("V65")
def test_a_row_may_fill_its_table_to_the_last_slot_but_not_beyond(host_backend: str) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((30, 2), (0, 1))))
    inputs = replace(problem.inputs, block_table=problem.inputs.block_table[:, :2].contiguous())
    full = replace(problem, inputs=inputs)
    prepare(full.signature, host_backend).run(full.clone().inputs)

    beyond = replace(full, inputs=replace(inputs, past_seqlens=int32(31, 0)))
    expect_refusal(beyond, host_backend, "V65", "past_seqlens")

    with pytest.raises(ContractViolation) as found:
        prepare(beyond.signature, host_backend).run(beyond.inputs)
    assert str(found.value) == (
        "past_seqlens: expected past + new tokens of at most 32, what the block table addresses, "
        "got 31 + 2 in row 0 (V65)"
    )


@pytest.mark.spec("V65")
def test_a_row_without_tokens_may_be_full(host_backend: str) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((32, 0), (0, 1))))
    inputs = replace(problem.inputs, block_table=problem.inputs.block_table[:, :2].contiguous())

    found = prepare(replace(problem, inputs=inputs).signature, host_backend).run(inputs)

    assert found.output.shape[0] == 1
    assert found.output.isfinite().all()


@pytest.mark.spec("V66")
@pytest.mark.parametrize("position", [-1, -(2**31)])
def test_negative_positions_are_refused(host_backend: str, position: int) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 2),), has_query_positions=True))
    inputs = replace(problem.inputs, query_positions=int32(4, position))
    expect_refusal(replace(problem, inputs=inputs), host_backend, "V66", "query_positions")


@pytest.mark.spec("V65", "V66")
@pytest.mark.parametrize("is_given", [False, True])
def test_positions_beyond_the_rotary_tables_are_refused(
    host_backend: str, *, is_given: bool
) -> None:
    options = ProblemOptions(rows=((3, 2),), rotary_dim=16, has_query_positions=is_given)
    problem = random_paged_problem(1, options)
    assert problem.inputs.cos_cache is not None
    assert problem.inputs.sin_cache is not None
    highest = (
        4 if problem.inputs.query_positions is None else int(problem.inputs.query_positions.max())
    )

    def cut(rows: int) -> PagedProblem:
        assert problem.inputs.cos_cache is not None
        assert problem.inputs.sin_cache is not None
        tables = {
            "cos_cache": problem.inputs.cos_cache[:rows],
            "sin_cache": problem.inputs.sin_cache[:rows],
        }
        return replace(problem, inputs=replace(problem.inputs, **tables)).clone()

    enough = cut(highest + 1)
    prepare(enough.signature, host_backend).run(enough.inputs)
    names = ("V66", "query_positions") if is_given else ("V65", "past_seqlens")
    expect_refusal(cut(highest), host_backend, *names)


@pytest.mark.spec("V67")
@pytest.mark.parametrize("axis", [2, 3])
def test_a_bias_smaller_than_the_batch_is_refused(axis: int) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 2), (5, 1)), has_bias=True))
    assert problem.inputs.attention_bias is not None
    bias = problem.inputs.attention_bias.narrow(axis, 0, 1).contiguous()
    inputs = replace(problem.inputs, attention_bias=bias)
    expect_refusal(replace(problem, inputs=inputs), "reference", "V67", "attention_bias")


@pytest.mark.rule("V105")
@pytest.mark.parametrize("bad", [0.0, -1.0, torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["k_scale", "v_scale"])
def test_scales_that_destroy_the_cache_are_refused(name: str, bad: float) -> None:
    options = ProblemOptions(rows=((3, 2),), cache_dtype=torch.int8, quant_type="PER_CHANNEL")
    problem = random_paged_problem(1, options)
    legal = problem.clone()
    getattr(legal.inputs, name)[1, 0, 5] = 2.0**-126
    prepare(legal.signature, "reference").run(legal.inputs)
    getattr(problem.inputs, name)[1, 0, 5] = bad

    expect_refusal(problem, "reference", "V105", name)

    with pytest.raises(ContractViolation) as found:
        prepare(problem.signature, "reference").run(problem.inputs)
    assert str(found.value) == f"{name}: expected finite values above 0, got {bad} (V105)"


@pytest.mark.parametrize(
    "change",
    [
        {"query": torch.zeros(2, 128, dtype=torch.complex64)},
        {"query": torch.zeros(2, 128, dtype=torch.int16)},
    ],
)
@pytest.mark.spec("V98")
def test_an_element_type_outside_the_contract_is_named(change: dict[str, Any]) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 2),)))
    with pytest.raises(ContractViolation, match="query") as found:
        _ = replace(problem, inputs=replace(problem.inputs, **change)).signature
    assert found.value.rule_id == "V98"


@pytest.mark.spec("V102")
def test_inputs_on_several_devices_are_refused() -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 2),)))
    moved = replace(problem.inputs, block_table=problem.inputs.block_table.to("meta"))
    with pytest.raises(ContractViolation, match="block_table") as found:
        _ = replace(problem, inputs=moved).signature
    assert found.value.rule_id == "V102"


@pytest.mark.spec("V103")
@pytest.mark.parametrize(
    ("name", "stride"),
    [
        ("key_cache", lambda tensor: torch.stack((tensor, tensor), dim=-1)[..., 0]),
        ("query", lambda tensor: torch.stack((tensor, tensor), dim=-1)[..., 0]),
        ("query", lambda tensor: tensor[:1].expand(2, -1)),
        ("block_table", lambda tensor: tensor.flatten()[:3].unfold(0, 2, 1)),
    ],
    ids=["cache", "inner", "expanded", "overlapping"],
)
def test_strides_that_no_backend_addresses_are_refused(
    name: str, stride: Callable[[Tensor], Tensor]
) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 1), (40, 1))))
    strided = stride(getattr(problem.inputs, name))
    changed = replace(problem, inputs=replace(problem.inputs, **{name: strided}))
    with pytest.raises(ContractViolation, match=name) as found:
        prepare(changed.signature)
    assert found.value.rule_id == "V103"
