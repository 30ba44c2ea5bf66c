"""The latent layout: values are the leading channels of its cache, and what it does not go with.

Random tables, slots and rotation in LATENT are in test_paging, test_window_pruning and
test_rotary_spellings; here is what LATENT alone has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from every_backend import (
    LATENT,
    Kernel,
    bits,
    each_eligible,
    fill,
    in_every_type,
    oracle_output,
    with_inputs,
)
from pa_kernels import paged_attention, prepare
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from pa_spec import ContractViolation

ROWS = ((33, 1), (15, 3), (0, 20), (16, 1))
CASES = {
    f"{name}-{width}": replace(options, v_head_size=width)
    for name, options in in_every_type(replace(LATENT, rows=ROWS)).items()
    for width in (8, 32, 40)
}
ORACLE = ("float32-8", "float32-32", "float32-int8-channel-32", "bfloat16-fp8-tensor-40")


@each_eligible(CASES, ORACLE)
def test_values_are_the_leading_channels_of_the_key_cache(
    options: ProblemOptions, kernel: Kernel
) -> None:
    # One key has all the weight: it stands out in a channel behind the values.
    problem = random_paged_problem(1, replace(options, rows=((20, 1),), rotary_dim=0))
    fill(problem)
    cache = problem.inputs.key_cache
    block_id = int(problem.inputs.block_table[0, 0])
    is_wide = options.v_head_size == options.head_size
    cache.view(torch.uint8)[..., -1:] = 0
    cache[block_id, 5, 0, -1] = torch.tensor(100.0).to(cache.dtype)
    query = torch.zeros_like(problem.inputs.query)
    query[:, options.head_size - 1 :: options.head_size] = 1000.0
    assert problem.inputs.key is not None
    key = problem.inputs.key.clone()
    key[:, -1] = 0
    outstanding = cache[block_id, 5, 0].double()
    if problem.inputs.k_scale is not None:
        outstanding = outstanding * problem.inputs.k_scale.double().flatten()

    output = kernel.output(with_inputs(problem, query=query, key=key))

    expected = outstanding[: options.v_head_size].repeat(1, options.num_heads)
    assert output.shape == expected.shape
    expect_close(output, expected)
    assert is_wide or not torch.equal(outstanding[: options.v_head_size], outstanding[-8:])


@each_eligible(CASES, ORACLE)
def test_channels_behind_the_values_change_weights_only(
    options: ProblemOptions, kernel: Kernel
) -> None:
    # Queries that are zero behind the value width see nothing of those channels, whatever is there.
    if options.v_head_size == options.head_size:
        options = replace(options, v_head_size=24)
    problem = random_paged_problem(2, replace(options, rotary_dim=0))
    fill(problem)
    query = problem.inputs.query.clone().view(-1, options.num_heads, options.head_size)
    query[..., options.v_head_size :] = 0
    plain = with_inputs(problem, query=query.flatten(1))
    changed = plain.clone()
    changed.inputs.key_cache[..., options.v_head_size :] = torch.tensor(3.0).to(
        changed.inputs.key_cache.dtype
    )

    outputs = [kernel.output(each.clone()) for each in (plain, changed)]

    expect_close(outputs[0], outputs[1].double())
    assert torch.isfinite(outputs[0]).all()


@each_eligible(in_every_type(replace(LATENT, rows=ROWS, has_slot_mapping=True)))
def test_paged_latent_rows_equal_the_oracle(options: ProblemOptions, kernel: Kernel) -> None:
    # Shuffled and shared tables, unmapped entries, -1 slots, every cache type, a window and a cap.
    features: list[dict[str, Any]] = [{}, {"window_tokens": 17}, {"softcap": 5.0}]
    for seed, changes in enumerate(features, start=3):
        drawn = replace(options, **changes)

        output = kernel.output(random_paged_problem(seed, drawn))

        expect_close(output, oracle_output(seed, drawn))


@each_eligible({"absorbed": ProblemOptions()})
def test_absorbed_heads_equal_heads_that_are_built_from_the_latent(
    options: ProblemOptions, kernel: Kernel
) -> None:
    # Contract section 8.6, smaller: latent 32, rope 8, nope 16, values 24, three heads.
    del options
    generator = torch.Generator().manual_seed(9)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) * 0.4

    heads, tokens, latent, rope, nope = 3, 21, 32, 8, 16
    up_key, up_value = draw(heads, latent, nope), draw(heads, latent, 24)
    compressed, shared = draw(tokens, latent), draw(tokens, rope)
    query, query_rope = draw(tokens, heads, nope), draw(tokens, heads, rope)
    scale = (nope + rope) ** -0.5
    # Not absorbed: every head's own keys and values, dense and causal.
    keys = torch.einsum("tl,hln->htn", compressed, up_key)
    logits = torch.einsum("thn,hsn->hts", query, keys)
    logits = (logits + torch.einsum("thr,sr->hts", query_rope, shared)) * scale
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    weights = logits.masked_fill(~mask, -torch.inf).softmax(-1)
    values = torch.einsum("tl,hlv->htv", compressed, up_value)
    expected = torch.einsum("hts,hsv->thv", weights, values)
    # Absorbed: the query goes through the key matrix, the output through the value matrix.
    absorbed = torch.cat((torch.einsum("thn,hln->thl", query, up_key), query_rope), -1)
    call = replace(LATENT, rows=((0, tokens),), rotary_dim=0, rotary_offset=0, scale=scale)
    problem = with_inputs(
        random_paged_problem(1, call),
        query=absorbed.flatten(1).float(),
        key=torch.cat((compressed, shared), -1).float(),
    )

    output = kernel.output(problem).double().reshape(tokens, heads, latent)

    found = torch.einsum("thl,hlv->thv", output, up_value)
    expect_close(found, expected, torch.float32)


def refuse(problem: PagedProblem) -> ContractViolation:
    before = bits(problem.inputs.key_cache).clone()
    with pytest.raises(ContractViolation) as found:
        prepare(problem.signature)
    with pytest.raises(ContractViolation) as again:
        paged_attention(problem.inputs, problem.attributes)
    assert str(again.value) == str(found.value)
    assert torch.equal(bits(problem.inputs.key_cache), before)
    return found.value


Change = Callable[[PagedProblem], dict[str, Any]]
REJECTED: list[tuple[Change, str]] = [
    (
        lambda _: {"key": None},
        "key: expected the latent rows, required with LATENT, got none (V16)",
    ),
    (
        lambda problem: {"value": problem.inputs.key},
        "value: expected absent with LATENT, got [25, 40] (V17)",
    ),
    (
        lambda problem: {"value_cache": problem.inputs.key_cache},
        "value_cache: expected absent with LATENT, got {cache} (V22)",
    ),
    (
        lambda _: {"head_sink": torch.zeros(3)},
        "head_sink: expected absent with LATENT, got [3] (V24)",
    ),
    (
        lambda _: {"q_norm_weight": torch.ones(40), "k_norm_weight": torch.ones(40)},
        "q_norm_weight: expected absent with LATENT, got [40] (V25)",
    ),
    (
        lambda _: {"v_scale": torch.ones(1)},
        "v_scale: expected absent with LATENT, got [1] (V26)",
    ),
]
NOT_WITH_LATENT: list[tuple[dict[str, Any], str]] = [
    (
        {"scale": 0.0},
        (
            "scale: expected an explicit scale, because v_head_size=32 differs from head_size=40, "
            "got 0.0 (V21)"
        ),
    ),
    (
        {"v_quant_type": "PER_TENSOR"},
        "v_quant_type: expected NONE with LATENT, got PER_TENSOR (V26)",
    ),
    ({"v_cache_dtype": "float16"}, 'v_cache_dtype: expected "" with LATENT, got float16 (V26)'),
    ({"v_head_size": 48}, "v_head_size: expected 0, or 1 to head_size=40, got 48 (V19)"),
    ({"v_head_size": 20}, "v_head_size: expected a multiple of 8, got 20 (V106)"),
]


@pytest.mark.spec("V16", "V17", "V22", "V24", "V25", "V26")
@pytest.mark.parametrize(("change", "message"), REJECTED, ids=lambda each: str(each)[-5:])
def test_latent_refuses_inputs_that_it_has_not(change: Change, message: str) -> None:
    problem = random_paged_problem(1, replace(LATENT, rows=ROWS))
    cache = list(problem.inputs.key_cache.shape)

    found = refuse(with_inputs(problem, **change(problem)))

    assert str(found) == message.replace("{cache}", str(cache))
    assert paged_attention(problem.inputs, problem.attributes).output.isfinite().all()


@pytest.mark.spec("V19", "V21", "V26", "V106")
@pytest.mark.parametrize(("change", "message"), NOT_WITH_LATENT, ids=lambda each: str(each)[-5:])
def test_latent_refuses_attributes_that_it_has_not(change: dict[str, Any], message: str) -> None:
    problem = random_paged_problem(1, replace(LATENT, rows=ROWS))

    found = refuse(replace(problem, attributes=replace(problem.attributes, **change)))

    assert str(found) == message


@pytest.mark.spec("V23")
def test_latent_has_one_kv_head() -> None:
    problem = random_paged_problem(1, replace(LATENT, num_heads=2, kv_num_heads=2, rows=ROWS))

    assert str(refuse(problem)) == "kv_num_heads: expected 1 with LATENT, got 2 (V23)"


@pytest.mark.spec("V21")
def test_a_value_as_wide_as_the_head_needs_no_scale() -> None:
    options = replace(LATENT, rows=ROWS, v_head_size=40, scale=0.0)
    problem = random_paged_problem(1, options)
    explicit = replace(problem, attributes=replace(problem.attributes, scale=40**-0.5)).clone()

    outputs = [paged_attention(each.inputs, each.attributes) for each in (problem, explicit)]

    expect_close(outputs[0].output, outputs[1].output)


@pytest.mark.spec("V20")
def test_separate_heads_have_one_width() -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=ROWS))
    narrow = replace(problem, attributes=replace(problem.attributes, v_head_size=16, scale=0.1))

    found = refuse(narrow)

    assert str(found) == "v_head_size: expected 0 or head_size=32 with SEPARATE, got 16 (V20)"
