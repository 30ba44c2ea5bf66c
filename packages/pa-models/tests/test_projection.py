"""Packed weights give the library's own products, and are left alone where they cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pa_models import projection
from pa_models.projection import PackedProjection, PlainProjection, make_projection
from torch import Tensor


@pytest.fixture(autouse=True)
def fresh_trial() -> Iterator[None]:
    projection._packing_works.cache_clear()
    yield
    projection._packing_works.cache_clear()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 16, 17, 200])
@pytest.mark.parametrize(("outputs", "inputs"), [(960, 576), (7, 24), (64, 1)])
def test_packed_product_equals_the_plain_one(
    dtype: torch.dtype, rows: int, outputs: int, inputs: int
) -> None:
    weight, bias = draw(outputs, inputs).to(dtype), draw(outputs).to(dtype)
    values = draw(rows, inputs).to(dtype)

    with torch.inference_mode():
        found = make_projection(weight, bias)(values)

    expected = values.double() @ weight.double().T + bias.double()
    tolerance = 1e-5 if dtype is torch.float32 else 1 / 128
    torch.testing.assert_close(
        found.double(), expected, atol=tolerance * inputs**0.5, rtol=tolerance
    )


def test_rows_may_be_a_slice() -> None:
    weight, wide = draw(32, 48), draw(5, 96)

    with torch.inference_mode():
        found = make_projection(weight)(wide[:, 48:])

    torch.testing.assert_close(found, wide[:, 48:] @ weight.T, atol=1e-4, rtol=1e-4)


def test_a_cpu_with_its_matrix_library_packs() -> None:
    chosen = make_projection(draw(8, 8))

    assert isinstance(chosen, PackedProjection)


def test_float16_stays_plain() -> None:
    assert isinstance(make_projection(draw(8, 8).half()), PlainProjection)


def test_wrong_numbers_in_the_trial_mean_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(self: PackedProjection, rows: Tensor) -> Tensor:
        return rows @ draw(18, 16).to(rows.dtype).T

    monkeypatch.setattr(PackedProjection, "__call__", doubled)

    assert isinstance(make_projection(draw(8, 8)), PlainProjection)


def test_missing_operators_mean_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: PackedProjection, weight: Tensor, bias: Tensor | None = None) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(PackedProjection, "__init__", missing)

    assert isinstance(make_projection(draw(8, 8)), PlainProjection)
