"""Goal: a direct call never differs from preparing and running, whatever was called before it.

Method: neighbours of one call that differ from it in a single thing, called alternately; what is
shared between calls of one layout must not be shared between layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pa_kernels import paged_attention, prepare, signature_of
from pa_kernels.backends.reference import OUTPUT_QK_LIMIT_VARIABLE
from pa_kernels.signature import layout_of, tensor_signature
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import ContractViolation
from torch import Tensor

ROWS = ((3, 2), (16, 1), (0, 5))
BASE = random_paged_problem(0, ProblemOptions(rows=ROWS, metadata_entries=3))


def with_input(**changes: Any) -> PagedProblem:
    return replace(BASE, inputs=replace(BASE.inputs, **changes))


def with_attribute(**changes: Any) -> PagedProblem:
    return replace(BASE, attributes=replace(BASE.attributes, **changes))


def strided(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor], 1)[:, : tensor.shape[1]]


assert BASE.inputs.key is not None
NEIGHBOURS: dict[str, PagedProblem] = {
    "base": BASE,
    "scale": with_attribute(scale=0.5),
    "softcap": with_attribute(softcap=2.0),
    "window": with_attribute(local_window_size=3),
    "query's rows": with_input(query=strided(BASE.inputs.query)),
    "key's rows": with_input(key=strided(BASE.inputs.key)),
    "table's rows": with_input(block_table=strided(BASE.inputs.block_table)),
    "no metadata": with_input(attention_metadata=None),
    "other bounds": with_input(attention_metadata=torch.tensor([7, 40], dtype=torch.int32)),
    "a sink": with_input(head_sink=torch.ones(4)),
    "blocks": random_paged_problem(1, ProblemOptions(rows=ROWS, block_size=32)),
    "head size": random_paged_problem(2, ProblemOptions(rows=ROWS, head_size=16)),
    "bfloat16": random_paged_problem(3, ProblemOptions(rows=ROWS, dtype=torch.bfloat16)),
    "scores": with_attribute(qk_output=1),
    "probabilities": with_attribute(qk_output=2),
}


def expect_what_preparing_gives(problem: PagedProblem) -> None:
    direct, prepared = problem.clone(), problem.clone()

    found = paged_attention(direct.inputs, direct.attributes)
    call = prepare(signature_of(prepared.inputs, prepared.attributes))
    expected = call.run(prepared.inputs)

    assert torch.equal(found.output, expected.output)
    for name in ("key_cache", "value_cache"):
        mine, other = getattr(direct.inputs, name), getattr(prepared.inputs, name)
        assert torch.equal(mine.nan_to_num(7.0), other.nan_to_num(7.0))
    if expected.output_qk is None:
        assert found.output_qk is None
    else:
        assert found.output_qk is not None
        assert torch.equal(found.output_qk, expected.output_qk)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_call_between_its_neighbours_gives_what_preparing_gives(name: str) -> None:
    for problem in (BASE, NEIGHBOURS[name], BASE, NEIGHBOURS[name]):
        expect_what_preparing_gives(problem)


def test_layouts_differ_where_signatures_do() -> None:
    layouts = {name: layout_of(each.inputs, each.attributes) for name, each in NEIGHBOURS.items()}

    assert len(set(layouts.values())) == len(NEIGHBOURS)
    assert layout_of(BASE.clone().inputs, BASE.attributes) == layouts["base"]


def broken() -> dict[str, tuple[PagedProblem, str]]:
    past = BASE.inputs.past_seqlens
    return {
        "V65": (with_input(past_seqlens=past - 100), "V65"),
        "V98": (with_input(past_seqlens=past.long()), "V98"),
        "V102": (with_input(block_table=BASE.inputs.block_table.to("meta")), "V102"),
        "V103": (with_input(query=BASE.inputs.query.T.contiguous().T), "V103"),
        "V33": (with_input(past_seqlens=past[:2]), "V33"),
    }


@pytest.mark.parametrize(("problem", "rule"), broken().values(), ids=broken().keys())
def test_a_broken_neighbour_is_refused_each_time_and_spoils_nothing(
    problem: PagedProblem, rule: str
) -> None:
    expect_what_preparing_gives(BASE)

    for _ in range(2):
        with pytest.raises(ContractViolation) as caught:
            paged_attention(problem.inputs, problem.attributes)
        assert caught.value.rule_id == rule

    expect_what_preparing_gives(BASE)


def test_threads_that_share_a_layout_do_not_meet() -> None:
    options = ProblemOptions(rows=((300, 3), (40, 1)), rotary_dim=16, has_qk_norm=True)
    problems = [random_paged_problem(5, options) for _ in range(24)]
    for shift, problem in enumerate(problems):
        problem.inputs.query.add_(shift)
    copies = [problem.clone() for problem in problems]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: paged_attention(each.inputs, each.attributes), problems))

    for copy, outputs in zip(copies, found, strict=True):
        call = prepare(signature_of(copy.inputs, copy.attributes))
        assert torch.equal(outputs.output, call.run(copy.inputs).output)


def test_the_limit_of_scores_is_read_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = NEIGHBOURS["scores"].clone()
    paged_attention(problem.inputs, problem.attributes)

    monkeypatch.setenv(OUTPUT_QK_LIMIT_VARIABLE, "8")

    with pytest.raises(ContractViolation, match="at most 8"):
        paged_attention(problem.inputs, problem.attributes)


def test_every_call_names_its_backend_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = BASE.clone()
    paged_attention(problem.inputs, problem.attributes)
    assert capsys.readouterr().err == ""

    monkeypatch.setenv("PA_KERNEL_DEBUG", "1")
    for _ in range(2):
        paged_attention(problem.inputs, problem.attributes)

    first, second = capsys.readouterr().err.splitlines()
    assert first == second
    assert first.startswith("pa_kernels: PreparedCall(backend='cpu'")


def views() -> st.SearchStrategy[Callable[[Tensor], Tensor]]:
    """Draw a view of a tensor [4, 3, 2]: axes exchanged, cut, repeated or taken away."""
    return st.sampled_from(
        [
            lambda each: each,
            lambda each: each.transpose(0, 1),
            lambda each: each.transpose(1, 2),
            lambda each: each[:, :1],
            lambda each: each[..., :1],
            lambda each: each[:1].transpose(0, 1),
            lambda each: each[:0],
            lambda each: each[:, :0],
            lambda each: each[:, 1:2, 1:],
            lambda each: each[0, :, 0],
            lambda each: each[0, :1, 0],
            lambda each: each[0, 0, 0],
            lambda each: each[::2],
            lambda each: each[:1].expand(5, 3, 2),
            lambda each: each.flatten(),
            lambda each: each.unsqueeze(1),
        ]
    )


@given(views(), views())
def test_layouts_know_what_is_contiguous(
    first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]
) -> None:
    tensor = first(torch.empty(4, 3, 2))
    tensor = second(tensor) if tensor.dim() == 3 else tensor

    if tensor.dim() != 2:
        assert tensor_signature("it", tensor).contiguous_inner == tensor.is_contiguous()
