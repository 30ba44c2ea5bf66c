"""Every rule that a call can break, broken in a call: refused by `prepare` and `paged_attention`.

Method: the golden vectors describe calls; here they become tensors. The message must be the
vector's, no cache may change, and the nearest legal call must run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet
from every_backend import bits, eligible, int32
from pa_kernels import paged_attention, prepare
from pa_kernels.backends.reference import OUTPUT_QK_LIMIT_VARIABLE
from pa_kernels.signature import DTYPES
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import (
    CallSignature,
    ContractViolation,
    Decider,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    RuleStatus,
    TensorSignature,
    rules,
    vectors,
)
from pa_spec.testing import example_call
from torch import Tensor

CASES = vectors("validation")
BROKEN = [case for case in CASES if case["violations"]]
UNSPELLED = {
    "bounds_of_one": "bounds are read from attention_metadata itself",
    "scores_not_asked_for": "paged_attention asks for them where qk_output does",
}
"""Vectors that a signature can have and tensors cannot."""
STRIDED = "key_cache: expected an innermost axis of stride 1, got another stride (V103)"
"""A signature says how far apart a cache's rows are; a tensor only that it is not contiguous."""


def tensor_of(name: str, signature: TensorSignature | None, num_tokens: int) -> Tensor | None:
    """Make a tensor of a signature: legal lengths where they fit, ones elsewhere."""
    if signature is None:
        return None
    tensor = torch.ones(signature.shape).to(DTYPES[signature.element_type])
    if name == "cumulative_sequence_length":
        tensor.zero_()[..., -1] = num_tokens
    if not signature.contiguous_inner or (signature.row_stride and tensor.ndim != 2):
        tensor = torch.stack((tensor, tensor), dim=-1)[..., 0]
    elif signature.row_stride:
        rows, columns = signature.shape
        tensor = tensor.repeat(1, -(-signature.row_stride // columns))
        tensor = tensor[:, : signature.row_stride].contiguous()[:, :columns]
        assert rows == 1 or tensor.stride(0) == signature.row_stride
    return tensor if signature.device == "cpu" else tensor.to("meta")


def inputs_of(signature: CallSignature) -> PagedAttentionInputs[Tensor]:
    num_tokens = signature.inputs.query.shape[0]
    tensors = {name: tensor_of(name, each, num_tokens) for name, each in signature.inputs.named()}
    if signature.metadata is not None:
        tensors["attention_metadata"] = int32(*signature.metadata)
    return PagedAttentionInputs(**tensors)  # type: ignore[arg-type]


def cache_bytes(inputs: PagedAttentionInputs[Tensor]) -> list[Tensor]:
    return [bits(inputs.key_cache).clone(), bits(inputs.value_cache).clone()]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: str(case["id"]))
def test_prepare_refuses_a_signature_with_the_first_message_of_its_vector(
    case: Mapping[str, Any],
) -> None:
    with pytest.raises(ContractViolation) as found:
        prepare(example_call(case["mode"], case["changes"]))

    assert str(found.value) == case["violations"][0]
    assert f"({found.value.rule_id})" in case["violations"][0]
    legal = example_call(case["mode"], case["changes"] | case["neighbour"])
    assert prepare(legal).signature == legal


@pytest.mark.parametrize(
    "case",
    [case for case in BROKEN if case["id"] not in UNSPELLED],
    ids=lambda case: str(case["id"]),
)
def test_tensors_that_break_a_rule_are_refused_and_their_neighbours_run(
    case: Mapping[str, Any],
) -> None:
    signature = example_call(case["mode"], case["changes"])
    inputs = inputs_of(signature)
    before = cache_bytes(inputs)
    # The only other device of every machine is the one without data.
    expected = case["violations"][0].replace("got cuda", "got meta")

    with pytest.raises(ContractViolation) as found:
        paged_attention(inputs, signature.attributes, signature.output_qk_type)

    assert str(found.value) == (STRIDED if case["id"] == "strided_cache" else expected)
    assert all(map(torch.equal, cache_bytes(inputs), before))
    legal = example_call(case["mode"], case["changes"] | case["neighbour"])
    output = paged_attention(inputs_of(legal), legal.attributes, legal.output_qk_type).output
    assert output.isfinite().all()


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case["violations"] and "_on_a_gpu_" not in case["id"]],
    ids=lambda case: str(case["id"]),
)
def test_legal_vectors_run(case: Mapping[str, Any]) -> None:
    signature = example_call(case["mode"], case["changes"])

    output = paged_attention(
        inputs_of(signature), signature.attributes, signature.output_qk_type
    ).output

    assert output.isfinite().all()


OPTIONS = ProblemOptions(rows=((7, 2), (16, 3)), rotary_dim=16, head_size=16)
QUANTIZED = replace(OPTIONS, cache_dtype=torch.int8, quant_type="PER_TENSOR")
WITH_POSITIONS = replace(OPTIONS, has_query_positions=True)
TABLE_TOKENS = 48
"""What three columns of 16 address."""

Changed = dict[str, Tensor]
VALUES: list[tuple[ProblemOptions, Changed, str]] = [
    (
        OPTIONS,
        {"cumulative_sequence_length": int32(1, 2, 5)},
        "cumulative_sequence_length: expected a first entry of 0, got 1 (V65)",
    ),
    (
        OPTIONS,
        {"cumulative_sequence_length": int32(0, 2, 6)},
        "cumulative_sequence_length: expected a last entry of T=5, got 6 (V65)",
    ),
    (
        OPTIONS,
        {"cumulative_sequence_length": int32(0, 6, 5)},
        (
            "cumulative_sequence_length: expected entries that never decrease, "
            "got -1 tokens in row 1 (V65)"
        ),
    ),
    (
        OPTIONS,
        {"past_seqlens": int32(7, -2)},
        "past_seqlens: expected entries of at least 0, got -2 in row 1 (V65)",
    ),
    (
        OPTIONS,
        {"past_seqlens": int32(7, TABLE_TOKENS - 2)},
        (
            "past_seqlens: expected past + new tokens of at most 48, what the block table "
            "addresses, got 46 + 3 in row 1 (V65)"
        ),
    ),
    (
        OPTIONS,
        {"cos_cache": torch.ones(18, 8), "sin_cache": torch.ones(18, 8)},
        "past_seqlens: expected positions below 18, what cos_cache has, got 18 (V65)",
    ),
    (
        WITH_POSITIONS,
        {"query_positions": int32(0, 1, 2, -1, 4)},
        "query_positions: expected positions of at least 0, got -1 (V66)",
    ),
    (
        WITH_POSITIONS,
        {"query_positions": int32(0, 1, 2, 99, 4)},
        "query_positions: expected positions below 27, what cos_cache has, got 99 (V66)",
    ),
    (
        replace(OPTIONS, has_bias=True),
        {"attention_bias": torch.zeros(1, 4, 2, 30)},
        "attention_bias: expected capacities of at least 3 and 19, got [1, 4, 2, 30] (V67)",
    ),
    (
        replace(OPTIONS, has_bias=True),
        {"attention_bias": torch.zeros(1, 4, 3, 18)},
        "attention_bias: expected capacities of at least 3 and 19, got [1, 4, 3, 18] (V67)",
    ),
    (
        QUANTIZED,
        {"k_scale": torch.tensor([0.0])},
        "k_scale: expected finite values above 0, got 0.0 (V105)",
    ),
    (
        QUANTIZED,
        {"v_scale": torch.tensor([torch.nan])},
        "v_scale: expected finite values above 0, got nan (V105)",
    ),
]


def call_with(options: ProblemOptions, changed: Changed) -> PagedProblem:
    problem = random_paged_problem(4, options)
    table = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    return replace(problem, inputs=replace(problem.inputs, block_table=table, **changed))


Run = Callable[[PagedAttentionInputs[Tensor], PagedAttentionAttributes], object]


def refusals() -> Iterator[ParameterSet]:
    """Yield every broken call: as users call it, and on every backend and unit that serves it."""
    for options, changed, message in VALUES:
        rule_id = message.rpartition("(")[2].rstrip(")")
        runs: dict[str, Run] = {"paged_attention": paged_attention}
        runs |= {str(each): each.run for each in eligible(call_with(options, changed).signature)}
        for name, run in runs.items():
            yield pytest.param(
                call_with(options, changed),
                message,
                run,
                id=f"{rule_id}-{message.partition(':')[0]}-{name}",
            )


@pytest.mark.spec("V65", "V66", "V67", "V105")
@pytest.mark.parametrize(("problem", "message", "run"), list(refusals()))
def test_values_that_break_a_rule_are_refused(
    problem: PagedProblem, message: str, run: Run
) -> None:
    before = cache_bytes(problem.inputs)

    with pytest.raises(ContractViolation) as found:
        run(problem.inputs, problem.attributes)

    assert str(found.value) == message
    assert all(map(torch.equal, cache_bytes(problem.inputs), before))
    legal = call_with(problem.options, {})
    run(legal.inputs, legal.attributes)
    assert not torch.equal(bits(legal.inputs.key_cache), before[0])


@pytest.mark.spec("V59", "V70")
def test_scores_above_the_limit_leave_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = call_with(replace(OPTIONS, qk_output=1), {})
    needed = 4 * 5 * TABLE_TOKENS * 4
    monkeypatch.setenv(OUTPUT_QK_LIMIT_VARIABLE, str(needed))
    assert paged_attention(problem.clone().inputs, problem.attributes).output_qk is not None
    monkeypatch.setenv(OUTPUT_QK_LIMIT_VARIABLE, str(needed - 1))
    before = cache_bytes(problem.inputs)

    with pytest.raises(ContractViolation) as found:
        paged_attention(problem.inputs, problem.attributes)

    assert found.value.rule_id == "V59"
    assert str(found.value).endswith(
        f"reference: output_qk: {needed} bytes, at most {needed - 1} "
        "(PA_KERNEL_OUTPUT_QK_LIMIT_BYTES, V70) (V59)"
    )
    assert all(map(torch.equal, cache_bytes(problem.inputs), before))


def test_every_rule_that_a_call_can_break_is_broken_here_or_by_naming_a_backend() -> None:
    elsewhere = {"configuration", "manifest", "outputs"}
    callable_rules = {
        rule.id
        for rule in rules().values()
        if rule.status is RuleStatus.ACTIVE
        and rule.decided_by in (Decider.SPEC, Decider.KERNELS)
        and rule.area not in elsewhere
    }
    messages = [case["violations"][0] for case in BROKEN] + [message for _, _, message in VALUES]
    broken = {message.rpartition("(")[2].rstrip(")") for message in messages}

    # V59 above; a backend by its name or a layer that is not the prepared one: test_prepare.
    assert broken | {"V59", "V68", "V70", "V71"} == callable_rules
