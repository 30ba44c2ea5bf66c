"""Steps of few rows do not wake threads that sleep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pa_models.threads import FEW_ROWS, threads_for


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("policy", "spin", "rows", "threads"),
    [
        ("PASSIVE", None, 1, 1),
        ("passive", None, FEW_ROWS, 1),
        (None, "0", 1, 1),
        ("PASSIVE", "0", FEW_ROWS + 1, 2),
        ("ACTIVE", None, 1, 2),
        (None, None, 1, 2),
    ],
)
def test_few_rows_take_one_thread_where_the_others_sleep(
    policy: str | None, spin: str | None, rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("OMP_WAIT_POLICY", policy), ("GOMP_SPINCOUNT", spin)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    with threads_for(rows):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_the_setting_comes_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")

    with pytest.raises(RuntimeError, match="broken"), threads_for(1):
        raise RuntimeError("broken")

    assert torch.get_num_threads() == 2
