"""Prepare once, run often: selection, refusals, buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from pa_kernels import explain, paged_attention, prepare, signature_of
from pa_kernels.backends.reference import OUTPUT_QK_LIMIT_VARIABLE
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import ContractViolation, ElementType, PagedAttentionOutputs
from torch import Tensor

ROWS = ((5, 2), (0, 1))


def problem(**options: Any) -> PagedProblem:
    return random_paged_problem(1, ProblemOptions(rows=ROWS, **options))


def negated(tensor: Tensor) -> Tensor:
    """Return the tensor's memory with the bit that says that its values are the opposite."""
    return torch._neg_view(tensor)


def same_caches(left: PagedProblem, right: PagedProblem) -> bool:
    return torch.equal(left.inputs.key_cache.nan_to_num(9), right.inputs.key_cache.nan_to_num(9))


def test_one_prepared_call_serves_many_layers() -> None:
    first = problem()
    layers = [
        replace(first, inputs=replace(first.inputs, query=first.inputs.query * scale)).clone()
        for scale in (1, 2, 3)
    ]
    call = prepare(layers[0].signature)

    outputs = [call.run(layer.clone().inputs).output for layer in layers]

    for layer, output in zip(layers, outputs, strict=True):
        assert torch.equal(output, paged_attention(layer.inputs, layer.attributes).output)


def test_the_compiled_backend_serves_what_it_can_and_says_so() -> None:
    call = prepare(problem().signature)
    assert call.backend == "cpu"
    assert repr(call) == "PreparedCall(backend='cpu', T=3, B=2)"


def test_the_oracle_serves_what_the_compiled_backend_cannot_visibly() -> None:
    signature = problem(has_bias=True).signature

    verdicts = explain(signature)

    assert prepare(signature).backend == "reference"
    assert [verdict.backend for verdict in verdicts] == ["cuda", "cpu", "reference"]
    assert verdicts[0].reason in (
        "not built",
        "attention: this build stores keys and values only",
    )
    assert verdicts[1].reason == "attention_bias: the cpu backend adds none to its logits"
    assert verdicts[2].is_selected
    assert str(verdicts[2]) == "reference: selected"


def test_explain_lists_the_backends_behind_the_selected_one() -> None:
    reasons = {verdict.backend: verdict.reason for verdict in explain(problem().signature)}
    assert reasons["cpu"] == "selected"
    assert reasons["reference"] == "eligible, tried later"


def test_debugging_prints_the_selected_backend_once_a_prepare(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = problem()
    monkeypatch.setenv("PA_KERNEL_DEBUG", "1")

    call = prepare(case.signature)
    call.run(case.inputs)
    call.run(case.inputs)

    assert capsys.readouterr().err == "pa_kernels: PreparedCall(backend='cpu', T=3, B=2)\n"
    monkeypatch.setenv("PA_KERNEL_DEBUG", "0")
    prepare(case.signature)
    assert capsys.readouterr().err == ""


@pytest.mark.rule("V59")
def test_a_call_that_no_backend_serves_lists_every_reason() -> None:
    case = problem()
    cuda = explain(case.signature)[0].reason
    assert prepare(case.signature).backend == "cpu"

    with pytest.raises(ContractViolation) as found:
        prepare(signature_of(case.clone("meta").inputs, case.attributes))

    assert str(found.value) == (
        f"backend: expected a call that a backend serves, got cuda: {cuda}; "
        "cpu: device meta: the cpu backend works in host memory; "
        "reference: device meta: cpu and cuda only (V59)"
    )


REFUSED = [
    pytest.param(
        {"has_bias": True},
        "attention_bias: the cpu backend adds none to its logits (V68)",
        marks=pytest.mark.rule("V68"),
    ),
    pytest.param(
        {"qk_output": 1},
        "qk_output 1: the cpu backend keeps no score matrix (V70)",
        marks=pytest.mark.rule("V70"),
    ),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED)
def test_a_named_backend_refuses_by_feature_backend_and_limit(
    options: dict[str, Any], reason: str
) -> None:
    case = problem(**options)
    before = case.clone()

    with pytest.raises(ContractViolation) as found:
        prepare(case.signature, "cpu")

    assert str(found.value) == f"backend: expected a call that cpu serves, got {reason}"
    assert same_caches(case, before)
    assert prepare(problem().signature, "cpu").backend == "cpu"
    assert prepare(case.signature, "reference").backend == "reference"


@pytest.mark.rule("V71")
def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ContractViolation) as found:
        prepare(problem().signature, "flash")

    assert str(found.value) == "backend: expected one of cuda, cpu, reference, got flash (V71)"
    assert prepare(problem().signature, "reference").backend == "reference"


@pytest.mark.rule("V70")
def test_a_score_matrix_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(qk_output=1)
    heads, tokens, columns = 4, 3, case.inputs.block_table.shape[1] * 16
    size = heads * tokens * columns * 4
    monkeypatch.setenv(OUTPUT_QK_LIMIT_VARIABLE, str(size - 1))

    with pytest.raises(ContractViolation) as found:
        prepare(case.signature, "reference")

    assert str(found.value) == (
        f"backend: expected a call that reference serves, got output_qk: {size} bytes, "
        f"at most {size - 1} (PA_KERNEL_OUTPUT_QK_LIMIT_BYTES, V70) (V70)"
    )
    monkeypatch.setenv(OUTPUT_QK_LIMIT_VARIABLE, str(size))
    assert prepare(case.signature, "reference").backend == "reference"


def test_a_broken_rule_is_refused_by_prepare_and_explain() -> None:
    signature = problem().signature
    broken = replace(signature, attributes=replace(signature.attributes, num_heads=3))

    for ask in (prepare, explain):
        with pytest.raises(ContractViolation) as found:
            ask(broken)
        assert found.value.rule_id == "V2"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("query", lambda tensor: tensor[:2]),
        ("query", lambda tensor: tensor.double()),
        ("key", lambda tensor: torch.cat((tensor, tensor), 1)[:, : tensor.shape[1]]),
        ("key_cache", lambda tensor: tensor[:-1]),
        ("block_table", lambda tensor: tensor[:, :-1].contiguous()),
        ("past_seqlens", lambda tensor: tensor.long()),
        ("slot_mapping", lambda _: torch.zeros(3, dtype=torch.int32)),
        ("value", lambda _: None),
    ],
)
def test_a_layer_that_differs_from_the_prepared_signature_is_named(
    name: str, change: Callable[[Tensor], Any]
) -> None:
    case = problem()
    before = case.clone()
    call = prepare(case.signature)
    changed: dict[str, Any] = {name: change(getattr(case.inputs, name))}
    inputs = replace(case.inputs, **changed)

    with pytest.raises(ContractViolation, match=name):
        call.run(inputs)

    assert same_caches(case, before)


@pytest.mark.rule("V98")
@pytest.mark.parametrize("name", ["query", "key", "value", "key_cache", "value_cache"])
def test_a_tensor_with_the_negative_bit_is_refused_before_any_store(name: str) -> None:
    case = problem()
    before = case.clone()
    call = prepare(case.signature)
    changed: dict[str, Any] = {name: negated(getattr(case.inputs, name))}
    inputs = replace(case.inputs, **changed)

    for attempt in (
        lambda: call.run(inputs),
        lambda: paged_attention(inputs, case.attributes),
        lambda: signature_of(inputs, case.attributes),
    ):
        with pytest.raises(ContractViolation) as found:
            attempt()
        assert str(found.value) == (
            f"{name}: expected values as they stand in memory (resolve_neg), "
            "got torch.float32 with the negative bit (V98)"
        )

    assert same_caches(case, before)
    resolved: dict[str, Any] = {name: changed[name].resolve_neg()}
    paged_attention(replace(case.inputs, **resolved), case.attributes)


def test_strides_of_a_single_row_do_not_matter() -> None:
    case = random_paged_problem(1, ProblemOptions(rows=((5, 1),)))
    call = prepare(case.signature)
    wide = torch.zeros(4, case.inputs.query.shape[1] + 8)
    query = wide[:1, : case.inputs.query.shape[1]]
    query.copy_(case.inputs.query)
    expected = call.run(case.clone().inputs)

    found = call.run(replace(case.inputs, query=query))

    assert torch.equal(found.output, expected.output)


def test_outputs_are_written_into_the_given_buffers() -> None:
    case = problem(qk_output=2)
    call = prepare(case.signature)
    expected = call.run(case.clone().inputs)
    assert expected.output_qk is not None
    out = PagedAttentionOutputs(
        torch.full_like(expected.output, 7), torch.full_like(expected.output_qk, 7)
    )

    returned = call.run(case.inputs, out)

    assert returned is out
    assert torch.equal(out.output, expected.output)
    assert out.output_qk is not None
    assert torch.equal(out.output_qk, expected.output_qk)


def test_tensors_that_want_gradients_are_served_without_one(host_backend: str) -> None:
    case = problem()
    inputs = replace(case.inputs, query=case.inputs.query.clone().requires_grad_())

    output = prepare(signature_of(inputs, case.attributes), host_backend).run(inputs).output

    assert not output.requires_grad


def test_scores_come_in_the_element_type_that_was_asked_for() -> None:
    case = problem(qk_output=1)
    result = paged_attention(case.inputs, case.attributes, ElementType.BFLOAT16)
    assert result.output_qk is not None
    assert result.output_qk.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("make", "rule_id"),
    [
        (lambda output: PagedAttentionOutputs(output[:, :-8]), "V71"),
        (lambda output: PagedAttentionOutputs(output.double()), "V71"),
        (lambda output: PagedAttentionOutputs(output.repeat(1, 2)[:, ::2]), "V71"),
        (lambda output: PagedAttentionOutputs(negated(output)), "V71"),
        (lambda output: PagedAttentionOutputs(output, output), "V69"),
        (lambda output: PagedAttentionOutputs(output.to("meta")), "V102"),
    ],
)
def test_buffers_that_do_not_fit_are_refused_before_anything_changes(
    make: Callable[[Tensor], PagedAttentionOutputs[Tensor]], rule_id: str
) -> None:
    case = problem()
    before = case.clone()
    call = prepare(case.signature)

    with pytest.raises(ContractViolation) as found:
        call.run(case.inputs, make(torch.zeros(3, 4 * 32)))

    assert found.value.rule_id == rule_id
    assert same_caches(case, before)
