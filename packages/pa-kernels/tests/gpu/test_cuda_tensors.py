"""The oracle and sampling on CUDA tensors give what they give on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pa_kernels import prepare, sample_tokens
from pa_kernels.testing import expect_close, random_options, random_paged_problem
from pa_spec import SamplingBatch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_oracle_computes_the_same_on_a_device(seed: int, dtype: torch.dtype) -> None:
    problem = random_paged_problem(seed, random_options(seed, dtype))
    moved = problem.clone("cuda")

    found = prepare(moved.signature, "reference").run(moved.inputs).output

    expected = prepare(problem.signature, "reference").run(problem.inputs).output
    expect_close(found.cpu(), expected)


@pytest.mark.parametrize("quant_type", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("cache_dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantized_caches_work_on_a_device(quant_type: str, cache_dtype: torch.dtype) -> None:
    options = replace(random_options(5), quant_type=quant_type, cache_dtype=cache_dtype)
    problem = random_paged_problem(5, options)
    moved = problem.clone("cuda")

    found = prepare(moved.signature).run(moved.inputs).output

    expected = prepare(problem.signature).run(problem.inputs).output
    # A code may differ by one where the device rounds the other way.
    expect_close(found.cpu(), expected, torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_chooses_the_same_tokens_on_a_device(dtype: torch.dtype) -> None:
    rows, vocabulary = 64, 32000
    generator = torch.Generator().manual_seed(3)
    logits = (torch.randn(rows, vocabulary, generator=generator) * 3).to(dtype)
    rng = np.random.default_rng(4)
    batch = SamplingBatch(
        temperature=rng.choice([0.0, 0.5, 1.0, 2.0], rows).astype(np.float32),
        top_k=rng.choice([0, 1, 40], rows).astype(np.int32),
        top_p=rng.choice([0.5, 0.9, 1.0], rows).astype(np.float32),
        uniform=rng.random(rows),
        penalty=rng.choice([1.0, 1.3], rows).astype(np.float32),
        penalized_row=np.repeat(np.arange(rows, dtype=np.int32), 20),
        penalized_token=rng.integers(0, vocabulary, rows * 20).astype(np.int32),
        banned_row=np.arange(rows, dtype=np.int32),
        banned_token=rng.integers(0, vocabulary, rows).astype(np.int32),
    )

    tokens, faulty = sample_tokens(logits.cuda(), batch)

    expected, _ = sample_tokens(logits.clone(), batch)
    assert tokens.cpu().tolist() == expected.tolist()
    assert faulty is not None
    assert not faulty.any()


def test_a_faulty_row_is_reported_from_a_device() -> None:
    logits = torch.zeros(3, 100, device="cuda")
    logits[1, 5] = torch.nan

    tokens, faulty = sample_tokens(logits, SamplingBatch())

    assert faulty is not None
    assert faulty.tolist() == [False, True, False]
    assert tokens.tolist() == [0, 0, 0]
