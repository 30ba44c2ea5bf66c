"""Every implementation of the operator on this machine, each instruction-set unit on its own.

Tests ask the implementations themselves what they serve, so a new type or layout is covered as soon
as a backend serves it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from pa_kernels import _cpu, reference, signature_of
from pa_kernels.backends.backend import Backend
from pa_kernels.backends.cpu import CpuBackend
from pa_kernels.backends.missing import MissingBackend
from pa_kernels.backends.table import BACKENDS
from pa_kernels.geometry import CallGeometry
from pa_kernels.signature import DTYPES
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_spec import (
    CallSignature,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    check,
)
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Kernel:
    """One implementation; prints as "reference" or "cpu-avx2"."""

    name: str
    backend: Backend

    def __str__(self) -> str:
        return self.name

    def serves(self, signature: CallSignature) -> bool:
        """Whether the call can be asked of it."""
        return self.backend.unsupported(signature) is None

    def run(
        self, inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
    ) -> PagedAttentionOutputs[Tensor]:
        """Run on the inputs' own caches, into outputs of NaN: what nobody writes shows."""
        signature = signature_of(inputs, attributes)
        check(signature)
        geometry = CallGeometry.of(signature)
        output = torch.full(geometry.output_shape, torch.nan, dtype=inputs.query.dtype)
        scores, scores_type = None, signature.output_qk_type
        if scores_type is not None:
            shape, dtype = geometry.output_qk_shape, DTYPES[scores_type]
            scores = torch.full(shape, torch.nan, dtype=dtype)
        outputs = PagedAttentionOutputs(output, scores)
        self.backend.prepare(signature).run(inputs, outputs)
        return outputs

    def rounds_weights(self, problem: PagedProblem) -> bool:
        """Whether it rounds the softmax to bfloat16 before values are weighed with it."""
        has_products = self.name == "cpu-avx512_bf16"
        return has_products and problem.inputs.query.dtype == torch.bfloat16

    def output(self, problem: PagedProblem) -> Tensor:
        """Run a problem on its own caches; return the attention output."""
        return self.run(problem.inputs, problem.attributes).output


def _kernels() -> tuple[Kernel, ...]:
    found = []
    for backend in BACKENDS:
        if isinstance(backend, CpuBackend):
            units = _cpu.available_units()
            found += [Kernel(f"cpu-{unit}", CpuBackend(unit)) for unit in units]
        elif not isinstance(backend, MissingBackend) and not backend.name.startswith("cuda"):
            found.append(Kernel(backend.name, backend))
    return tuple(found)


KERNELS = _kernels()


REFERENCE = next(kernel for kernel in KERNELS if kernel.name == "reference")
"""The oracle, which serves every call."""


def eligible(signature: CallSignature) -> list[Kernel]:
    """Return the implementations that serve a call; the oracle always is one."""
    return [kernel for kernel in KERNELS if kernel.serves(signature)]


def each_eligible(
    cases: Mapping[str, ProblemOptions], oracle: Collection[str] | None = None
) -> pytest.MarkDecorator:
    """Parametrize a test with `options` and `kernel`: every case on all that serve it.

    oracle: the cases that the slow oracle takes too, None = all of them.
    """
    rows = [
        pytest.param(options, kernel, id=f"{name}-{kernel}")
        for name, options in cases.items()
        for kernel in eligible(_small(options).signature)
        if kernel.name != "reference" or oracle is None or name in oracle
    ]
    return pytest.mark.parametrize(("options", "kernel"), rows)


def _small(options: ProblemOptions) -> PagedProblem:
    """Return a problem of one token, which the same backends serve."""
    return random_paged_problem(0, replace(options, rows=((1, 1),)))


_INT8, _FLOAT8 = torch.int8, torch.float8_e4m3fn
_STORED: Mapping[str, tuple[torch.dtype, torch.dtype | None, str]] = {
    "float32": (torch.float32, None, "NONE"),
    "bfloat16": (torch.bfloat16, None, "NONE"),
    "float16": (torch.float16, None, "NONE"),
    "float32-int8-tensor": (torch.float32, _INT8, "PER_TENSOR"),
    "float32-int8-channel": (torch.float32, _INT8, "PER_CHANNEL"),
    "float32-fp8-tensor": (torch.float32, _FLOAT8, "PER_TENSOR"),
    "float32-fp8-channel": (torch.float32, _FLOAT8, "PER_CHANNEL"),
    "bfloat16-int8-channel": (torch.bfloat16, _INT8, "PER_CHANNEL"),
    "bfloat16-fp8-tensor": (torch.bfloat16, _FLOAT8, "PER_TENSOR"),
    "float16-int8-tensor": (torch.float16, _INT8, "PER_TENSOR"),
    "float16-fp8-channel": (torch.float16, _FLOAT8, "PER_CHANNEL"),
}


def in_every_type(options: ProblemOptions) -> dict[str, ProblemOptions]:
    """Return the options in every pair of activation and cache type."""
    return {
        name: replace(options, dtype=dtype, cache_dtype=cache_dtype, quant_type=quant_type)
        for name, (dtype, cache_dtype, quant_type) in _STORED.items()
    }


def with_inputs(problem: PagedProblem, **changed: Any) -> PagedProblem:
    """Return the problem with other tensors."""
    return replace(problem, inputs=replace(problem.inputs, **changed))


def with_entries(problem: PagedProblem, block_id: int, *places: tuple[int, int]) -> PagedProblem:
    """Return the problem with a block table of its own, in which some entries are `block_id`."""
    table = problem.inputs.block_table.clone()
    for row, column in places:
        table[row, column] = block_id
    return with_inputs(problem, block_table=table)


def int32(*values: int) -> Tensor:
    """Return a row of int32."""
    return torch.tensor(values, dtype=torch.int32)


def bits(tensor: Tensor | None) -> Tensor:
    """Return a tensor's bytes, so that equal means equal to the bit; nothing has none."""
    if tensor is None:
        return torch.empty(0, dtype=torch.uint8)
    return tensor.contiguous().view(torch.uint8)


def same_caches(left: PagedProblem, right: PagedProblem) -> bool:
    """Whether both caches hold the same bytes."""
    return all(
        torch.equal(bits(getattr(left.inputs, name)), bits(getattr(right.inputs, name)))
        for name in ("key_cache", "value_cache")
    )


@lru_cache(maxsize=64)
def oracle_output(seed: int, options: ProblemOptions) -> Tensor:
    """Return what the oracle computes in float64 for a drawn problem; every unit asks for it."""
    problem = random_paged_problem(seed, options)
    return reference.run(problem.inputs, problem.attributes, torch.float64).output


def fill(problem: PagedProblem, seed: int = 0) -> None:
    """Put numbers into every slot of the caches, so that any block may stand for any other."""
    generator = torch.Generator().manual_seed(seed)
    for name in ("key_cache", "value_cache"):
        cache = getattr(problem.inputs, name)
        if cache is not None:
            drawn = torch.randn(cache.shape, generator=generator)
            size = 1.0 if cache.element_size() > 1 else 40.0
            cache.copy_((drawn * size).clamp(-120, 120).round(decimals=2).to(cache.dtype))


LATENT = ProblemOptions(
    num_heads=3,
    kv_num_heads=1,
    head_size=40,
    v_head_size=32,
    rotary_dim=8,
    rotary_offset=32,
    scale=0.2,
)
"""A small head of absorbed latent attention: 32 latent channels and 8 that turn."""
