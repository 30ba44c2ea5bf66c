"""What the compiled CPU backend does not serve, it names."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pa_kernels.backends.cpu import CpuBackend
from pa_kernels.testing import ProblemOptions, random_paged_problem
from pa_spec import CallSignature, PagedAttentionInputs, TensorSignature


def signature_of(options: ProblemOptions) -> CallSignature:
    return random_paged_problem(0, options).signature


@pytest.mark.spec("V71")
@pytest.mark.parametrize(
    ("options", "feature"),
    [
        (ProblemOptions(has_bias=True), "attention_bias"),
        (ProblemOptions(qk_output=1), "qk_output 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_names_the_feature_and_the_backend(options: ProblemOptions, feature: str) -> None:
    reason = CpuBackend().unsupported(signature_of(options))

    assert reason is not None
    assert feature in reason
    assert "cpu backend" in reason


def test_a_call_on_another_device_is_not_served() -> None:
    signature = signature_of(ProblemOptions())
    moved: PagedAttentionInputs[TensorSignature] = replace(
        signature.inputs, query=replace(signature.inputs.query, device="cuda")
    )

    reason = CpuBackend().unsupported(replace(signature, inputs=moved))

    assert reason is not None
    assert "cuda" in reason


@pytest.mark.parametrize(
    "options",
    [
        ProblemOptions(),
        ProblemOptions(dtype=torch.bfloat16, is_packed=True, has_query_positions=True),
        ProblemOptions(softcap=3.0, has_sink=True, window_tokens=5, has_slot_mapping=True),
        ProblemOptions(rotary_dim=16, rotary_offset=8, has_qk_norm=True, is_strided=True),
        ProblemOptions(dtype=torch.float16),
        ProblemOptions(v_head_size=16, kv_num_heads=1, scale=0.1),
        ProblemOptions(cache_dtype=torch.int8, quant_type="PER_TENSOR"),
        ProblemOptions(
            dtype=torch.float16, cache_dtype=torch.float8_e4m3fn, quant_type="PER_CHANNEL"
        ),
    ],
    ids=str,
)
def test_the_common_features_are_served(options: ProblemOptions) -> None:
    assert CpuBackend().unsupported(signature_of(options)) is None
