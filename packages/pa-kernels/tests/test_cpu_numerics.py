"""The exponential and the tangent of every unit, over their whole domain."""

from __future__ import annotations

import pytest
import torch
from pa_kernels import _cpu, prepare, reference
from pa_kernels.testing import ProblemOptions, expect_close, random_paged_problem
from torch import Tensor

UNITS = _cpu.available_units()


def exp2(unit: str, x: Tensor) -> Tensor:
    result = torch.empty_like(x)
    _cpu.map_exp2(unit, x.data_ptr(), result.data_ptr(), x.numel())
    return result


def tanh(unit: str, x: Tensor) -> Tensor:
    result = torch.empty_like(x)
    _cpu.map_tanh(unit, x.data_ptr(), result.data_ptr(), x.numel())
    return result


def relative_error(found: Tensor, exact: Tensor) -> float:
    return float(((found.double() - exact) / exact).abs().max())


@pytest.mark.parametrize("unit", UNITS)
def test_exp2_is_within_two_units_in_the_last_place(unit: str) -> None:
    x = torch.cat((-torch.linspace(0, 126, 200_001), -torch.logspace(-30, 0, 5_001)))

    # 2^-22 = 2.4e-7: the polynomial's error of 2e-9, and three roundings.
    assert relative_error(exp2(unit, x), torch.exp2(x.double())) < 2.0**-22


@pytest.mark.parametrize("unit", UNITS)
def test_exp2_vanishes_far_below_zero_and_keeps_nan(unit: str) -> None:
    x = torch.tensor([-126.5, -1e4, -3e38, -torch.inf, torch.nan, 0.0, -0.0])

    found = exp2(unit, x)

    assert found[:4].tolist() == [0.0] * 4
    assert found[4].isnan()
    assert found[5:].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("unit", UNITS)
def test_tanh_keeps_its_relative_accuracy_near_zero(unit: str) -> None:
    half = torch.cat((torch.linspace(1e-3, 20, 100_001), torch.logspace(-30, 0, 5_001)))
    x = torch.cat((half, -half))

    assert relative_error(tanh(unit, x), torch.tanh(x.double())) < 2.0**-21


@pytest.mark.parametrize("unit", UNITS)
def test_tanh_of_the_ends(unit: str) -> None:
    x = torch.tensor([torch.inf, -torch.inf, 3e38, 0.0, torch.nan])

    found = tanh(unit, x)

    assert found[:4].tolist() == [1.0, -1.0, 1.0, 0.0]
    assert found[4].isnan()


@pytest.mark.spec("V100")
@pytest.mark.parametrize("softcap", [1e-45, 1e-40, 1e-20, 1e16, 3e38])
def test_softcaps_at_the_ends_of_the_range_equal_the_oracle(softcap: float) -> None:
    problem = random_paged_problem(3, ProblemOptions(softcap=softcap))
    copy = problem.clone()
    expected = reference.run(copy.inputs, copy.attributes, torch.float64).output
    found = prepare(problem.signature, "cpu").run(problem.inputs).output

    expect_close(found, expected)
