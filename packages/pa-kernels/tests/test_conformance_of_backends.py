"""Every backend of this machine passes the contract's own examination."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from pa_kernels import signature_of
from pa_kernels.testing import conformance_operator
from pa_spec import ElementType, PagedAttentionAttributes, PagedAttentionInputs, validate
from pa_spec.conformance import CaseStatus, Declaration, decode, encode, run

DECLARATIONS: Mapping[str, Declaration] = {
    "reference": Declaration(),
    "cpu": Declaration(
        element_types=frozenset({ElementType.FLOAT32, ElementType.BFLOAT16}),
        cache_types=frozenset(),
        lacks=frozenset({"latent", "quantized_cache", "attention_bias", "output_qk"}),
    ),
}


def test_a_backend_conforms_in_everything_that_it_declares(host_backend: str) -> None:
    report = run(conformance_operator(host_backend), DECLARATIONS[host_backend])

    assert report.passed, str(report)


def test_the_oracle_has_no_case_that_is_not_applicable_for_want_of_a_feature() -> None:
    report = run(conformance_operator("reference"))

    lacking = [each for each in report.of(CaseStatus.NOT_APPLICABLE) if each.detail[:3] == "no "]
    assert lacking == []


@pytest.mark.parametrize("tokens", [0, 1])
def test_an_empty_tensor_has_no_strides_to_object_to(tokens: int) -> None:
    """A tensor made from an empty numpy array has strides of 0."""
    rows = torch.from_numpy(torch.zeros(tokens, 8).numpy())
    caches = [torch.zeros(1, 16, 1, 8) for _ in range(2)]
    inputs = PagedAttentionInputs(
        query=rows,
        key=rows,
        value=rows,
        key_cache=caches[0],
        value_cache=caches[1],
        cumulative_sequence_length=torch.tensor([0, tokens], dtype=torch.int32),
        past_seqlens=torch.zeros(1, dtype=torch.int32),
        block_table=torch.zeros(1, 1, dtype=torch.int32),
    )

    assert validate(signature_of(inputs, PagedAttentionAttributes(1, 1))) == ()


def test_every_bit_pattern_is_the_number_that_torch_reads_from_it() -> None:
    for codes, dtype, element_type in (
        (np.arange(2**16, dtype=np.uint16), torch.bfloat16, ElementType.BFLOAT16),
        (np.arange(2**8, dtype=np.uint8), torch.float8_e4m3fn, ElementType.FLOAT8E4M3FN),
    ):
        expected = torch.from_numpy(codes).view(dtype).double().numpy()

        assert np.array_equal(decode(codes, element_type), expected, equal_nan=True)


@pytest.mark.parametrize("size", [1e-40, 1e-3, 1.0, 300.0, 3e38])
def test_numbers_are_rounded_to_bits_as_torch_rounds_them(size: float) -> None:
    drawn = np.random.default_rng(5).standard_normal(5000) * size
    # Up to the largest float32, which bfloat16 rounds to infinity.
    limited = np.clip(drawn, -3.4028234e38, 3.4028234e38)
    numbers = np.append(limited, [0.0, -0.0, np.inf, -np.inf]).astype(np.float32)
    expected = torch.from_numpy(numbers).bfloat16().view(torch.uint16).numpy()

    assert np.array_equal(encode(numbers, ElementType.BFLOAT16), expected)

    # torch has no saturation; where both are in range they agree.
    small = numbers[np.abs(numbers) <= 448]
    codes = torch.from_numpy(small).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert np.array_equal(encode(small, ElementType.FLOAT8E4M3FN), codes)
    assert encode([np.inf, -1e9, np.nan], ElementType.FLOAT8E4M3FN).tolist() == [0x7E, 0xFE, 0x7F]
