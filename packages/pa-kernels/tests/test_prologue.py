"""Split, norm and rotation, exactly; the stored key is the normalized and rotated one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from pa_kernels import prepare
from pa_kernels.testing import PagedProblem, ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

SIZE = 32


def stored_key(backend: str, options: ProblemOptions, key: Tensor) -> Tensor:
    """Run one token at position 3 with this key [D]; return the key that its slot holds."""
    problem = random_paged_problem(0, replace(options, rows=((3, 1),)))
    inputs = replace(problem.inputs, key=key.repeat(options.kv_num_heads)[None, :].contiguous())
    problem = replace(problem, inputs=inputs)
    prepare(problem.signature, backend).run(problem.inputs)
    stored: Tensor = inputs.key_cache[int(inputs.block_table[0, 0]), 3, 0]
    return stored


def angles(half: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of position 3, as random_paged_problem has them."""
    angle = 3.0 * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    return angle.cos(), angle.sin()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "offset"), [(32, 0), (16, 0), (8, 0), (16, 8), (8, 24), (16, 16)])
def test_each_rotary_pair_turns_and_the_rest_is_copied(
    host_backend: str, dim: int, offset: int, *, interleaved: bool
) -> None:
    options = ProblemOptions(
        rotary_dim=dim, rotary_interleaved=interleaved, rotary_offset=offset, head_size=SIZE
    )
    cosine, sine = angles(dim // 2)
    for channel in range(SIZE):
        unit = torch.eye(SIZE)[channel]

        found = stored_key(host_backend, options, unit)

        expected = unit.double()
        place = channel - offset
        if 0 <= place < dim:
            pair, is_right = divmod(place, 2) if interleaved else divmod(place, dim // 2)[::-1]
            partner = channel + (1 if interleaved else dim // 2) * (-1 if is_right else 1)
            expected[channel] = cosine[pair]
            expected[partner] = -sine[pair] if is_right else sine[pair]
        torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=0)


def test_norm_comes_before_the_rotation_and_values_stay(host_backend: str) -> None:
    options = ProblemOptions(rotary_dim=SIZE, has_qk_norm=True, head_size=SIZE, kv_num_heads=1)
    problem = random_paged_problem(0, replace(options, rows=((3, 1),)))
    key = torch.randn(SIZE, generator=torch.Generator().manual_seed(4)) * 7
    assert problem.inputs.k_norm_weight is not None
    weight = problem.inputs.k_norm_weight.double()

    found = stored_key(host_backend, options, key)

    normed = key.double() / (key.double().square().mean() + 1e-6).sqrt() * weight
    cosine, sine = angles(SIZE // 2)
    left, right = normed[: SIZE // 2], normed[SIZE // 2 :]
    expected = torch.cat((left * cosine - right * sine, right * cosine + left * sine))
    expect_close(found, expected)


@pytest.mark.parametrize(
    "features",
    [{}, {"rotary_dim": 16, "has_qk_norm": True}, {"has_slot_mapping": True}],
    ids=lambda features: "-".join(features) or "plain",
)
def test_packed_rows_equal_separate_ones(host_backend: str, features: dict[str, Any]) -> None:
    options = ProblemOptions(rows=((17, 3), (0, 5), (2, 0)), **features)
    separate = random_paged_problem(7, options)
    packed = random_paged_problem(7, replace(options, is_packed=True))

    outputs = [
        prepare(each.signature, host_backend).run(each.inputs) for each in (separate, packed)
    ]

    assert torch.equal(outputs[0].output, outputs[1].output)
    assert torch.equal(
        separate.inputs.key_cache.nan_to_num(9), packed.inputs.key_cache.nan_to_num(9)
    )


@pytest.mark.spec("V103")
@pytest.mark.parametrize("is_packed", [False, True])
def test_strided_rows_equal_contiguous_ones(host_backend: str, *, is_packed: bool) -> None:
    options = ProblemOptions(rows=((17, 3), (0, 5), (2, 1)), rotary_dim=16, is_packed=is_packed)
    problem = random_paged_problem(3, replace(options, is_strided=True))
    dense = problem.clone()
    contiguous = {
        name: tensor.contiguous()
        for name, tensor in dense.inputs.named()
        if name in ("query", "key", "value") and tensor is not None
    }
    dense = replace(dense, inputs=replace(dense.inputs, **contiguous))
    assert problem.inputs.query.stride(0) > dense.inputs.query.stride(0)

    outputs = [prepare(each.signature, host_backend).run(each.inputs) for each in (problem, dense)]

    assert torch.equal(outputs[0].output, outputs[1].output)


def test_rotary_tables_without_do_rotary_are_not_used(host_backend: str) -> None:
    problem = random_paged_problem(1, ProblemOptions(rows=((3, 4),), rotary_dim=16))
    attributes = replace(problem.attributes, do_rotary=0)
    with_tables = replace(problem.clone(), attributes=attributes)
    bare = replace(problem.inputs, cos_cache=None, sin_cache=None)
    without = PagedProblem(problem.options, bare, attributes)

    outputs = [
        prepare(each.signature, host_backend).run(each.inputs) for each in (with_tables, without)
    ]

    assert torch.equal(outputs[0].output, outputs[1].output)


@pytest.mark.spec("V66")
def test_query_positions_turn_queries_and_keys(host_backend: str) -> None:
    options = ProblemOptions(rows=((0, 6),), rotary_dim=16)
    shifted = random_paged_problem(1, options)
    plain = shifted.clone()
    # A shift of all positions turns queries and keys alike: the last token, which sees all keys
    # either way, keeps its scores; the stored keys change.
    positions = torch.arange(6, dtype=torch.int32) + 5
    moved = replace(shifted.inputs, query_positions=positions)

    output = prepare(replace(shifted, inputs=moved).signature, host_backend).run(moved).output

    expected = prepare(plain.signature, host_backend).run(plain.inputs).output
    expect_close(output[-1], expected[-1])
    assert not torch.equal(moved.key_cache.nan_to_num(9), plain.inputs.key_cache.nan_to_num(9))


def test_a_cached_key_is_not_normalized_or_rotated_again(host_backend: str) -> None:
    options = ProblemOptions(rotary_dim=16, has_qk_norm=True)
    whole = random_paged_problem(9, replace(options, rows=((0, 20),)))
    expected = prepare(whole.clone().signature, host_backend).run(whole.clone().inputs).output

    pieces = []
    for start, count in ((0, 7), (7, 9), (16, 4)):
        cut = {
            name: getattr(whole.inputs, name)[start : start + count]
            for name in ("query", "key", "value")
        }
        cut["cumulative_sequence_length"] = torch.tensor([0, count], dtype=torch.int32)
        cut["past_seqlens"] = torch.tensor([start], dtype=torch.int32)
        chunk = replace(whole, inputs=replace(whole.inputs, **cut))
        pieces.append(prepare(chunk.signature, host_backend).run(chunk.inputs).output)

    expect_close(torch.cat(pieces), expected)
