"""Every backend of this machine passes the contract's own examination."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from pa_kernels import signature_of
from pa_kernels.testing import conformance_operator
from pa_spec import ElementType, PagedAttentionAttributes, PagedAttentionInputs, validate
from pa_spec.conformance import CaseStatus, Declaration, run

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
