"""Legal calls at the ends of what numbers can say, and calls that hold no memory at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from every_backend import Kernel, bits, each_eligible, with_inputs
from pa_kernels import paged_attention, prepare, reference
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from pa_spec import InputUnusable, PagedAttentionInputs
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

ROWS = ((20, 1), (3, 5), (0, 2))
CASES = {
    "float32": ProblemOptions(rows=ROWS),
    "bfloat16": ProblemOptions(rows=ROWS, dtype=torch.bfloat16),
    "many heads": ProblemOptions(rows=ROWS, num_heads=36, kv_num_heads=2),
}


def with_attributes(problem: PagedProblem, **changed: float) -> PagedProblem:
    attributes = replace(problem.attributes, **changed)  # type: ignore[arg-type]
    return replace(problem, attributes=attributes)


@each_eligible(CASES)
@pytest.mark.parametrize("position", [100, 2**31 - 648])
def test_positions_that_left_every_key_behind_see_nothing(
    options: ProblemOptions, kernel: Kernel, position: int
) -> None:
    problem = with_attributes(random_paged_problem(2, options), local_window_size=4)
    tokens = problem.inputs.query.shape[0]
    positions = torch.full((tokens,), position, dtype=torch.int32)

    output = kernel.output(with_inputs(problem, query_positions=positions))

    assert torch.equal(output, torch.zeros_like(output))


SCALED = {
    name: ProblemOptions(
        rows=ROWS, cache_dtype=dtype, quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL"
    )
    for name, dtype in (("int8", torch.int8), ("float8", torch.float8_e4m3fn))
}


@each_eligible(SCALED)
def test_scales_with_strided_rows_are_read_as_they_are(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(3, options)
    flat = {
        name: scale.reshape(scale.shape[0], -1)
        for name, scale in problem.inputs.named()
        if scale is not None and name in ("k_scale", "v_scale")
    }
    # What lies between the rows is no scale: it is not even positive.
    strided = {name: torch.cat((each, -each), 1)[:, : each.shape[1]] for name, each in flat.items()}
    plain, apart = with_inputs(problem.clone(), **flat), with_inputs(problem.clone(), **strided)

    assert torch.equal(kernel.output(apart), kernel.output(plain))
    assert torch.equal(bits(apart.inputs.key_cache), bits(plain.inputs.key_cache))


@each_eligible(CASES)
def test_a_sink_near_the_largest_float_takes_all_the_weight(
    options: ProblemOptions, kernel: Kernel
) -> None:
    problem = random_paged_problem(2, options)
    heads = problem.attributes.num_heads
    sink = torch.full((heads,), 3e38, dtype=problem.inputs.query.dtype)

    output = kernel.output(with_inputs(problem, head_sink=sink))

    assert torch.equal(output, torch.zeros_like(output))


@pytest.mark.spec("V100")
@each_eligible({"float32": CASES["float32"]})
@pytest.mark.parametrize("softcap", [1e-320, 1e-50, 1e39, 1e300])
def test_softcaps_outside_float32_keep_their_meaning(
    options: ProblemOptions, kernel: Kernel, softcap: float
) -> None:
    problem = with_attributes(random_paged_problem(3, options), softcap=softcap)
    twin = problem.clone()
    expected = reference.run(twin.inputs, twin.attributes, torch.float64).output

    expect_close(kernel.output(problem), expected)


# In the oracle's float32 such a scale is infinite, and 0 times infinity NaN.
@each_eligible({"float32": CASES["float32"]}, oracle=())
@pytest.mark.parametrize("scale", [1e39, -1e300])
def test_scales_outside_float32_leave_logits_of_zero_alone(
    options: ProblemOptions, kernel: Kernel, scale: float
) -> None:
    problem = with_attributes(random_paged_problem(3, options), scale=scale)
    problem = with_inputs(problem, query=torch.zeros_like(problem.inputs.query))
    assert kernel.output(problem).isfinite().all()


def without_memory(problem: PagedProblem) -> Tensor:
    cache = problem.inputs.key_cache
    cache.untyped_storage().resize_(0)
    return cache


def test_a_tensor_whose_memory_was_given_back_is_refused_by_name() -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=ROWS))
    assert without_memory(problem).data_ptr() == 0

    with pytest.raises(InputUnusable) as found:
        paged_attention(problem.inputs, problem.attributes)

    assert str(found.value) == (
        "key_cache: a tensor without memory; allowed: a tensor that holds its values"
    )


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_tensors_that_only_pretend_are_refused_by_name() -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=ROWS))
    call = prepare(problem.signature, "cpu")
    with FakeTensorMode() as mode:
        fakes = {
            name: None if tensor is None else mode.from_tensor(tensor)
            for name, tensor in problem.inputs.named()
        }
        inputs: PagedAttentionInputs[Tensor]
        inputs = PagedAttentionInputs(**fakes)  # type: ignore[arg-type]

        with pytest.raises(InputUnusable, match="query: a tensor without memory"):
            call.run(inputs)


@pytest.mark.parametrize("name", ["query", "key_cache", "past_seqlens", "block_table"])
def test_a_missing_input_is_named(name: str) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=ROWS))

    with pytest.raises(InputUnusable) as found:
        paged_attention(with_inputs(problem, **{name: None}).inputs, problem.attributes)

    assert str(found.value) == f"{name}: nothing; allowed: a tensor"


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PA_KERNEL_OUTPUT_QK_LIMIT_BYTES", "1GB")
    problem = random_paged_problem(1, ProblemOptions(rows=ROWS, qk_output=1))

    with pytest.raises(InputUnusable) as found:
        prepare(problem.signature)

    assert str(found.value) == (
        "PA_KERNEL_OUTPUT_QK_LIMIT_BYTES: '1GB'; allowed: a whole number of bytes"
    )
