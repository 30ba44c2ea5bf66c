"""Logits that cannot be sampled from are refused by name."""

from __future__ import annotations

import pytest
import torch
from pa_kernels import sample_tokens
from pa_spec import InputUnusable, SamplingBatch


@pytest.mark.parametrize(
    "logits",
    [
        torch.zeros(4),
        torch.zeros(1, 2, 3),
        torch.zeros(2, 0),
        torch.zeros(2, 3, dtype=torch.int64),
        torch.zeros(2, 3, dtype=torch.float64),
    ],
    ids=lambda logits: f"{logits.dtype} {list(logits.shape)}",
)
def test_logits_of_another_shape_or_type_are_refused(logits: torch.Tensor) -> None:
    with pytest.raises(InputUnusable, match="logits"):
        sample_tokens(logits, SamplingBatch())
